//! The loader and an instance of it.

use std::ffi::CStr;
use std::path::Path;
use std::sync::Arc;

use ash::{Entry, vk};
use plimsoll_core::Fault;
use plimsoll_gpu::Unavailable;

/// What this backend is called where a capability is missing.
const WHAT: &str = "Vulkan";
const NO_DRIVER: &str = "Install a Vulkan driver of the device's vendor or of Mesa (Debian's package mesa-vulkan-drivers), or see whether \
                         VK_DRIVER_FILES and VK_ICD_FILENAMES hide it; or use another backend";
const DAMAGED: &str =
    "See whether the drivers' files in /usr/share/vulkan/icd.d or VK_DRIVER_FILES are whole, or use another backend";

/// An instance, destroyed with the last object that was made of it.
pub(crate) struct Instance {
    raw: ash::Instance,
    entry: Entry,
}

impl Instance {
    /// Opens the loader, the system's or one at a path, and makes an instance.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where there is no loader, it is none, or it finds no driver.
    pub(crate) fn new(loader: Option<&Path>) -> Result<Arc<Self>, Fault> {
        // SAFETY: the library is Vulkan's loader, which the user's system or the user names; its initialisers do no harm.
        let entry = unsafe {
            match loader {
                Some(path) => Entry::load_from(path),
                None => Entry::load(),
            }
        };
        let entry = entry.map_err(|error| {
            let named = loader.map_or_else(String::new, |path| format!("{}: ", path.display()));
            let hint = "Install the Vulkan loader (Debian's package libvulkan1), or name its library";
            Unavailable::new(WHAT, format!("{named}{error}"), hint)
        })?;
        // The library stays: drivers leave threads behind that still run its code when it would be unloaded.
        std::mem::forget(entry.clone());
        let application = vk::ApplicationInfo::default().application_name(c"plimsoll").api_version(vk::API_VERSION_1_3);
        // Drivers that keep to most of Vulkan (MoltenVK) are shown on demand only.
        let portable = offers(&entry, ash::khr::portability_enumeration::NAME);
        let names = [ash::khr::portability_enumeration::NAME.as_ptr()];
        let mut info = vk::InstanceCreateInfo::default().application_info(&application);
        if portable {
            info = info.enabled_extension_names(&names).flags(vk::InstanceCreateFlags::ENUMERATE_PORTABILITY_KHR);
        }
        // SAFETY: all that the info points to lives until the call returns.
        let raw = unsafe { entry.create_instance(&info, None) }.map_err(|result| match result {
            vk::Result::ERROR_INCOMPATIBLE_DRIVER => {
                Unavailable::new(WHAT, "the loader found no driver that it can use", NO_DRIVER)
            }
            other => Unavailable { hint: DAMAGED.to_owned(), ..failed("vkCreateInstance", other) },
        })?;
        Ok(Arc::new(Self { raw, entry }))
    }

    pub(crate) fn raw(&self) -> &ash::Instance {
        &self.raw
    }

    /// The physical devices, as the loader orders them.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] where there is none, or the driver fails.
    pub(crate) fn devices(&self) -> Result<Vec<vk::PhysicalDevice>, Fault> {
        // SAFETY: a live instance.
        let devices = unsafe { self.raw.enumerate_physical_devices() };
        let devices = devices.map_err(|result| failed("vkEnumeratePhysicalDevices", result))?;
        if devices.is_empty() {
            return Err(Unavailable::new(WHAT, "its drivers find no device", NO_DRIVER).into());
        }
        Ok(devices)
    }

    /// The version of Vulkan that the loader has.
    pub(crate) fn loader_version(&self) -> u32 {
        // SAFETY: the entry is loaded.
        let version = unsafe { self.entry.try_enumerate_instance_version() };
        version.ok().flatten().unwrap_or(vk::API_VERSION_1_0)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: every object made of it holds it, so there is none.
        unsafe { self.raw.destroy_instance(None) };
    }
}

fn offers(entry: &Entry, name: &CStr) -> bool {
    // SAFETY: the entry is loaded; no layer is asked.
    let extensions = unsafe { entry.enumerate_instance_extension_properties(None) }.unwrap_or_default();
    extensions.iter().any(|extension| extension.extension_name_as_c_str() == Ok(name))
}

/// A call that failed before there was a device to lose.
pub(crate) fn failed(call: &str, result: vk::Result) -> Unavailable {
    let hint = "Update the Vulkan driver, or use another device or backend";
    Unavailable::new(WHAT, format!("{call}: {result} ({})", result.as_raw()), hint)
}
