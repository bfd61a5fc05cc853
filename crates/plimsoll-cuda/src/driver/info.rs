//! A device by its number, before any context exists: what the driver tells of it.

use std::ffi::c_char;
use std::sync::Arc;

use super::types::{DeviceNumber, Uuid};
use super::{Driver, DriverError};

/// What can be asked of a device: cuda.h's `CU_DEVICE_ATTRIBUTE_…` numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Attribute {
    /// Largest grid in x.
    MaxGridX = 5,
    /// Core clock, kHz.
    ClockRate = 13,
    /// Multiprocessors.
    Multiprocessors = 16,
    /// Device and host share memory.
    Integrated = 18,
    /// 0 default, 2 prohibited, 3 one process.
    ComputeMode = 20,
    /// Error correction is on.
    Ecc = 32,
    /// Memory clock, kHz.
    MemoryClockRate = 36,
    /// Memory bus, bits.
    MemoryBusWidth = 37,
    /// Level-2 cache, bytes.
    L2Bytes = 38,
    /// Resident threads per multiprocessor.
    ThreadsPerMultiprocessor = 39,
    /// Copy engines.
    CopyEngines = 40,
    /// Unified memory.
    ManagedMemory = 83,
    /// Host and device may touch unified memory at once.
    ConcurrentManaged = 89,
    /// Compute capability, major.
    CapabilityMajor = 75,
    /// Compute capability, minor.
    CapabilityMinor = 76,
    /// Shared memory of a multiprocessor, bytes.
    SharedPerMultiprocessor = 81,
    /// Registers of a multiprocessor.
    RegistersPerMultiprocessor = 82,
    /// Cooperative launches.
    Cooperative = 95,
    /// Memory that is made and mapped apart.
    VirtualMemory = 102,
    /// Most dynamic shared memory of a block, bytes.
    SharedPerBlock = 97,
    /// Resident blocks per multiprocessor.
    BlocksPerMultiprocessor = 106,
    /// Memory that may be compressed.
    Compression = 107,
    /// Most of the second-level cache that may be set aside for persisting lines, bytes.
    MostPersistingL2 = 108,
    /// Largest access policy window, bytes.
    LargestWindow = 109,
    /// Memory in a stream's order.
    MemoryPools = 115,
}

/// A device of the driver: numbers count as `CUDA_VISIBLE_DEVICES` lets them.
#[derive(Clone, Debug)]
pub struct DeviceHandle {
    driver: Arc<Driver>,
    number: DeviceNumber,
}

impl DeviceHandle {
    /// How many devices there are.
    ///
    /// # Errors
    /// The driver's.
    pub fn count(driver: &Driver) -> Result<u32, DriverError> {
        let mut count = 0;
        // SAFETY: the count is written to a live integer.
        unsafe { driver.call().device_count(&raw mut count) }?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// The device with this number.
    ///
    /// # Errors
    /// The driver's: `CUDA_ERROR_INVALID_DEVICE` where there is none.
    pub fn new(driver: &Arc<Driver>, ordinal: u32) -> Result<Self, DriverError> {
        let mut number = 0;
        let ordinal = i32::try_from(ordinal).unwrap_or(i32::MAX);
        // SAFETY: the number is written to a live integer.
        unsafe { driver.call().device_get(&raw mut number, ordinal) }?;
        Ok(Self { driver: Arc::clone(driver), number })
    }

    /// The driver that it belongs to.
    #[must_use]
    pub fn driver(&self) -> &Arc<Driver> {
        &self.driver
    }

    /// Its number, as the driver counts.
    #[must_use]
    pub fn number(&self) -> DeviceNumber {
        self.number
    }

    /// An attribute, in cuda.h's units.
    ///
    /// # Errors
    /// The driver's.
    pub fn attribute(&self, attribute: Attribute) -> Result<i32, DriverError> {
        let mut value = 0;
        // SAFETY: the value is written to a live integer.
        unsafe { self.driver.call().device_attribute(&raw mut value, attribute as i32, self.number) }?;
        Ok(value)
    }

    /// The maker's name.
    ///
    /// # Errors
    /// The driver's.
    pub fn name(&self) -> Result<String, DriverError> {
        // SAFETY: the call writes at most `length` bytes, terminated.
        self.text(|text, length| unsafe { self.driver.call().device_name(text, length, self.number) })
    }

    /// Its place on the bus: `0000:01:00.0`.
    ///
    /// # Errors
    /// The driver's.
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

    /// Its UUID, as nvidia-smi writes it without the prefix (`GPU-` or `MIG-`).
    ///
    /// # Errors
    /// The driver's.
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

    /// Its memory, bytes.
    ///
    /// # Errors
    /// The driver's.
    pub fn memory(&self) -> Result<u64, DriverError> {
        let mut bytes = 0_usize;
        // SAFETY: the size is written to a live integer.
        unsafe { self.driver.call().device_memory(&raw mut bytes, self.number) }?;
        Ok(bytes as u64)
    }
}
