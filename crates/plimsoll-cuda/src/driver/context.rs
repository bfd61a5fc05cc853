//! The primary context of a device, shared with other libraries of this process, and whether it is still usable.

use std::sync::Arc;
use std::time::Duration;

use super::streams::Shared;
use super::types::Handle;
use super::{Calls, DeviceHandle, Driver, DriverError};

/// A retained primary context. All objects made in it keep it alive.
#[derive(Debug)]
pub struct Context {
    device: DeviceHandle,
    handle: Handle,
    shared: Arc<Shared>,
    deadline: Duration,
}

impl Context {
    /// Retains the device's primary context and makes it current on this thread. No wait in it lasts longer than
    /// `deadline`.
    ///
    /// # Errors
    /// `CUDA_ERROR_DEVICE_UNAVAILABLE` if another process holds the device exclusively.
    pub fn new(device: DeviceHandle, deadline: Duration) -> Result<Arc<Self>, DriverError> {
        let mut handle = Handle::NULL;
        // SAFETY: the handle is written to a live variable; the device number came from the driver.
        unsafe { device.driver().call().context_retain(&raw mut handle, device.number()) }?;
        let shared = device.driver().shared(device.number());
        let context = Arc::new(Self { device, handle, shared, deadline });
        context.bind()?;
        Ok(context)
    }

    /// The driver's handle, for libraries that take one.
    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    /// Longest wait.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &DeviceHandle {
        &self.device
    }

    /// The driver.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        self.device.driver()
    }

    /// State that all contexts of the device share.
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn call(&self) -> Calls<'_> {
        self.driver().call()
    }

    /// Makes it current on this thread, as calls that create objects require. Costs some tens of nanoseconds.
    pub fn bind(&self) -> Result<(), DriverError> {
        // SAFETY: the context is retained as long as `self` lives.
        self.watch(unsafe { self.call().context_set(self.handle) })
    }

    /// Lets kernels of this device access the memory of another device's context, from now on.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`] if the two devices can't.
    pub fn enable_peer_access(&self, other: &Self) -> Result<(), DriverError> {
        /// `CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED`.
        const ALREADY: u32 = 704;
        let mut can = 0;
        let (own, others) = (self.device.number(), other.device.number());
        // SAFETY: the answer is written to a live integer.
        self.watch(unsafe { self.call().peer_can(&raw mut can, own, others) })?;
        if can == 0 {
            let why = format!("device {own} can't access the memory of device {others}");
            let hint = "Connect them by NVLink or under one PCIe switch, or allow peer access in the virtual machine";
            return Err(crate::Unavailable::new("peer access", why, hint).into());
        }
        self.bind()?;
        // SAFETY: the other context is retained as long as `other` lives, and this one is current. Access ends with either.
        match unsafe { self.call().peer_enable(other.handle, 0) } {
            Err(DriverError::Call { code: ALREADY, .. }) => Ok(()),
            answer => self.watch(answer),
        }
    }

    /// Returns `result` unchanged, and gives the context up if it is a loss of the device.
    pub(crate) fn watch<T>(&self, result: Result<T, DriverError>) -> Result<T, DriverError> {
        if let Err(error) = &result
            && error.is_device_lost()
        {
            self.give_up();
        }
        result
    }

    /// Marks the device as lost or hung, for all its contexts. Nothing is destroyed from now on, because destroying waits for the
    /// device.
    pub fn give_up(&self) {
        self.shared.give_up();
    }

    /// Whether [`Context::give_up`] was called, explicitly or because of a loss.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.shared.is_given_up()
    }

    /// Makes a destructor's call, unless the context was given up. A destructor can't report its result. It may run anywhere, so other
    /// libraries notice nothing: the thread's current context stays, and no recording breaks.
    pub(crate) fn destroy(&self, call: impl FnOnce(Calls<'_>) -> Result<(), DriverError>) {
        if self.shared.is_given_up() {
            return;
        }
        let Ok(_current) = self.make_current() else { return };
        let _relaxed = self.driver().relax_recordings();
        let _ = self.watch(call(self.call()));
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if !self.shared.is_given_up() {
            // SAFETY: retained once in `new`, released once here; all objects made in it are gone, since each holds an `Arc` of it.
            let _ = unsafe { self.call().context_release(self.device.number()) };
        }
    }
}
