//! The Vulkan loader and an instance.

use std::ffi::CStr;
use std::path::Path;
use std::sync::Arc;

use ash::{Entry, vk};
use plimsoll_core::Fault;
use plimsoll_gpu::Unavailable;

/// The name of this backend in reasons for missing capabilities.
const WHAT: &str = "Vulkan";
const NO_DRIVER: &str = "Install the vendor's Vulkan driver or Mesa's (Debian's package mesa-vulkan-drivers), check whether \
                         VK_DRIVER_FILES or VK_ICD_FILENAMES hide it, or use another backend";
const DAMAGED: &str = "Check whether the drivers' files in /usr/share/vulkan/icd.d or VK_DRIVER_FILES are damaged, or use another backend";

/// An instance. It is destroyed with the last object created from it.
pub(crate) struct Instance {
    raw: ash::Instance,
    entry: Entry,
}

impl Instance {
    /// Opens the system's loader or the one at `loader`, and creates an instance.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] if there is no loader, the file isn't a loader, or it finds no driver.
    pub(crate) fn new(loader: Option<&Path>) -> Result<Arc<Self>, Fault> {
        // SAFETY: the library is the Vulkan loader that the system or the user names; its initialisers are sound to run.
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
        // Never unload the library: drivers leave threads behind that still run its code.
        std::mem::forget(entry.clone());
        let application = vk::ApplicationInfo::default().application_name(c"plimsoll").api_version(vk::API_VERSION_1_3);
        // Drivers that don't implement all of Vulkan (MoltenVK) are listed only on request.
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

    /// The physical devices, in the loader's order.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] if there is none or the driver fails.
    pub(crate) fn devices(&self) -> Result<Vec<vk::PhysicalDevice>, Fault> {
        // SAFETY: a live instance.
        let devices = unsafe { self.raw.enumerate_physical_devices() };
        let devices = devices.map_err(|result| failed("vkEnumeratePhysicalDevices", result))?;
        if devices.is_empty() {
            return Err(Unavailable::new(WHAT, "the drivers find no device", NO_DRIVER).into());
        }
        Ok(devices)
    }

    /// The loader's version of Vulkan.
    pub(crate) fn loader_version(&self) -> u32 {
        // SAFETY: the entry is loaded.
        let version = unsafe { self.entry.try_enumerate_instance_version() };
        version.ok().flatten().unwrap_or(vk::API_VERSION_1_0)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: every object created from it keeps it alive, so none is left.
        unsafe { self.raw.destroy_instance(None) };
    }
}

fn offers(entry: &Entry, name: &CStr) -> bool {
    // SAFETY: the entry is loaded; no layer is named.
    let extensions = unsafe { entry.enumerate_instance_extension_properties(None) }.unwrap_or_default();
    extensions.iter().any(|extension| extension.extension_name_as_c_str() == Ok(name))
}

/// The reason for a call that failed, other than a lost device.
pub(crate) fn failed(call: &str, result: vk::Result) -> Unavailable {
    let hint = "Update the Vulkan driver, or use another device or backend";
    Unavailable::new(WHAT, format!("{call}: {result} ({})", result.as_raw()), hint)
}
