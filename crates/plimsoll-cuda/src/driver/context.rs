//! The primary context of a device, shared with any other library of this process, and whether it still lives.

use std::sync::Arc;
use std::time::Duration;

use super::streams::Shared;
use super::types::Handle;
use super::{Calls, DeviceHandle, Driver, DriverError};

/// A retained primary context. Everything made in it keeps it alive.
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
    /// The driver's: `CUDA_ERROR_DEVICE_UNAVAILABLE` where another process holds the device alone.
    pub fn new(device: DeviceHandle, deadline: Duration) -> Result<Arc<Self>, DriverError> {
        let mut handle = Handle::NULL;
        // SAFETY: the handle is written to a live variable; the device number is the driver's own.
        unsafe { device.driver().call().context_retain(&raw mut handle, device.number()) }?;
        let shared = device.driver().shared(device.number());
        let context = Arc::new(Self { device, handle, shared, deadline });
        context.bind()?;
        Ok(context)
    }

    /// The context itself, for libraries that take one.
    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    /// How long a wait may last.
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

    /// What all contexts of the device share.
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn call(&self) -> Calls<'_> {
        self.driver().call()
    }

    /// Makes it current on this thread, which calls that make things need. Costs some tens of nanoseconds.
    ///
    /// # Errors
    /// The driver's.
    pub fn bind(&self) -> Result<(), DriverError> {
        // SAFETY: the context is retained as long as `self` lives.
        self.watch(unsafe { self.call().context_set(self.handle) })
    }

    /// Lets kernels of this device reach the memory of another one's context, from now on.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`] where the two can't; the driver's.
    pub fn reach(&self, other: &Self) -> Result<(), DriverError> {
        /// It was allowed before.
        const ALREADY: u32 = 704;
        let mut can = 0;
        let (own, others) = (self.device.number(), other.device.number());
        // SAFETY: the answer is written to a live integer.
        self.watch(unsafe { self.call().peer_can(&raw mut can, own, others) })?;
        if can == 0 {
            let why = format!("device {own} can't reach the memory of device {others}");
            let hint = "Connect them by NVLink or below one PCIe switch, or allow peer access in the virtual machine";
            return Err(crate::Unavailable::new("peer access", why, hint).into());
        }
        self.bind()?;
        // SAFETY: the other context is retained as long as `other` lives, and this one is current. Access ends with either.
        match unsafe { self.call().peer_enable(other.handle, 0) } {
            Err(DriverError::Call { code: ALREADY, .. }) => Ok(()),
            answer => self.watch(answer),
        }
    }

    /// Notes a loss on its way out: from then on nothing is destroyed any more, because destroying waits for the device.
    ///
    /// # Errors
    /// The one it was given.
    pub(crate) fn watch<T>(&self, answer: Result<T, DriverError>) -> Result<T, DriverError> {
        if let Err(error) = &answer
            && error.loses_the_device()
        {
            self.give_up();
        }
        answer
    }

    /// Nothing is destroyed in this context from now on, whoever uses it: it is lost, or something in it hangs.
    pub fn give_up(&self) {
        self.shared.give_up();
    }

    /// Whether [`Context::give_up`] was called or a loss was seen.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.shared.is_given_up()
    }

    /// Runs a destructor's call, unless the context was given up. Its answer has nowhere to go.
    pub(crate) fn destroy(&self, call: impl FnOnce(Calls<'_>) -> Result<(), DriverError>) {
        if !self.shared.is_given_up() && self.bind().is_ok() {
            let _ = self.watch(call(self.call()));
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if !self.shared.is_given_up() {
            // SAFETY: retained once in `new`, released once here; everything made in it is gone, since all of it holds
            // an `Arc` of this.
            let _ = unsafe { self.call().context_release(self.device.number()) };
        }
    }
}
