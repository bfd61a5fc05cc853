//! A device and its properties, available before any context exists.

use std::ffi::c_char;
use std::sync::Arc;

use super::types::{DeviceNumber, Uuid};
use super::{Driver, DriverError};

/// Device attributes: cuda.h's `CU_DEVICE_ATTRIBUTE_…` numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Attribute {
    /// Largest grid in x.
    MaxGridX = 5,
    /// Core clock, kHz.
    ClockRate = 13,
    /// Number of streaming multiprocessors.
    Multiprocessors = 16,
    /// Whether device and host share memory.
    Integrated = 18,
    /// Compute mode: 0 default, 2 prohibited, 3 exclusive to one process.
    ComputeMode = 20,
    /// Whether error correction is on.
    Ecc = 32,
    /// Memory clock, kHz.
    MemoryClockRate = 36,
    /// Memory bus, bits.
    MemoryBusWidth = 37,
    /// Size of the L2, bytes.
    L2Bytes = 38,
    /// Resident threads per SM.
    ThreadsPerMultiprocessor = 39,
    /// Number of copy engines.
    CopyEngines = 40,
    /// Whether unified memory is supported.
    ManagedMemory = 83,
    /// Whether host and device may access unified memory at the same time.
    ConcurrentManaged = 89,
    /// Compute capability, major.
    CapabilityMajor = 75,
    /// Compute capability, minor.
    CapabilityMinor = 76,
    /// Shared memory per SM, bytes.
    SharedPerMultiprocessor = 81,
    /// Registers per SM.
    RegistersPerMultiprocessor = 82,
    /// Whether cooperative launches are supported.
    Cooperative = 95,
    /// Whether memory can be created and mapped in separate steps.
    VirtualMemory = 102,
    /// Most dynamic shared memory per block, bytes.
    SharedPerBlock = 97,
    /// Resident blocks per SM.
    BlocksPerMultiprocessor = 106,
    /// Whether compressible memory is supported.
    Compression = 107,
    /// Most bytes of the L2 that may be set aside for persisting lines.
    MostPersistingL2 = 108,
    /// Largest access policy window, bytes.
    LargestWindow = 109,
    /// Whether stream-ordered allocation is supported.
    MemoryPools = 115,
}

/// A device of the driver, numbered within `CUDA_VISIBLE_DEVICES`.
#[derive(Clone, Debug)]
pub struct DeviceHandle {
    driver: Arc<Driver>,
    number: DeviceNumber,
}

impl DeviceHandle {
    /// Number of visible devices.
    pub fn count(driver: &Driver) -> Result<u32, DriverError> {
        let mut count = 0;
        // SAFETY: the count is written to a live integer.
        unsafe { driver.call().device_count(&raw mut count) }?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// The device with this number.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_DEVICE` if there is none.
    pub fn new(driver: &Arc<Driver>, ordinal: u32) -> Result<Self, DriverError> {
        let mut number = 0;
        let ordinal = i32::try_from(ordinal).unwrap_or(i32::MAX);
        // SAFETY: the number is written to a live integer.
        unsafe { driver.call().device_get(&raw mut number, ordinal) }?;
        Ok(Self { driver: Arc::clone(driver), number })
    }

    /// Its driver.
    #[must_use]
    pub fn driver(&self) -> &Arc<Driver> {
        &self.driver
    }

    /// Its device number, `CUdevice`.
    #[must_use]
    pub fn number(&self) -> DeviceNumber {
        self.number
    }

    /// An attribute, in cuda.h's units.
    pub fn attribute(&self, attribute: Attribute) -> Result<i32, DriverError> {
        let mut value = 0;
        // SAFETY: the value is written to a live integer.
        unsafe { self.driver.call().device_attribute(&raw mut value, attribute as i32, self.number) }?;
        Ok(value)
    }

    /// The product name.
    pub fn name(&self) -> Result<String, DriverError> {
        // SAFETY: the call writes at most `length` bytes, terminated.
        self.text(|text, length| unsafe { self.driver.call().device_name(text, length, self.number) })
    }

    /// Its PCI address: `0000:01:00.0`.
    pub fn pci(&self) -> Result<String, DriverError> {
        // SAFETY: as above.
        self.text(|text, length| unsafe { self.driver.call().device_pci(text, length, self.number) })
    }

    fn text(&self, ask: impl FnOnce(*mut c_char, i32) -> Result<(), DriverError>) -> Result<String, DriverError> {
        const LENGTH: usize = 256;
        let mut bytes = [0_u8; LENGTH];
        ask(bytes.as_mut_ptr().cast(), LENGTH as i32)?;
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(LENGTH);
        Ok(String::from_utf8_lossy(&bytes[..end]).chars().filter(|c| !c.is_control()).collect())
    }

    /// Its UUID as nvidia-smi writes it, without the prefix (`GPU-` or `MIG-`).
    pub fn uuid(&self) -> Result<String, DriverError> {
        let mut uuid = Uuid::default();
        // SAFETY: 16 bytes are written to a live structure of that size.
        unsafe { self.driver.call().device_uuid(&raw mut uuid, self.number) }?;
        let mut text = String::with_capacity(36);
        for (place, byte) in uuid.0.iter().enumerate() {
            if matches!(place, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            text.push_str(&format!("{byte:02x}"));
        }
        Ok(text)
    }

    /// Its total memory, bytes.
    pub fn memory(&self) -> Result<u64, DriverError> {
        let mut bytes = 0_usize;
        // SAFETY: the size is written to a live integer.
        unsafe { self.driver.call().device_memory(&raw mut bytes, self.number) }?;
        Ok(bytes as u64)
    }
}
