//! Images for this driver: ELF files whose kernels have parameters but no code.

use crate::MAGIC;

/// An ELF file under construction: contents, section names and section headers.
#[derive(Default)]
struct Builder {
    file: Vec<u8>,
    names: Vec<u8>,
    headers: Vec<u8>,
    count: u16,
}

impl Builder {
    /// Adds a section of this type with everything written since `from`.
    fn section(&mut self, name: &str, kind: u32, from: usize, (link, entry): (u32, u64)) {
        let name_offset = self.names.len() as u32;
        self.names.extend_from_slice(name.as_bytes());
        self.names.push(0);
        self.header(name_offset, kind, (from, self.file.len() - from), (link, entry));
    }

    fn header(&mut self, name: u32, kind: u32, (from, size): (usize, usize), (link, entry): (u32, u64)) {
        let mut header = [0_u8; 64];
        let words: [(usize, u64); 6] =
            [(0, name.into()), (4, kind.into()), (24, from as u64), (32, size as u64), (40, link.into()), (56, entry)];
        for (offset, value) in words {
            let length = if matches!(offset, 0 | 4 | 40) { 4 } else { 8 };
            header[offset..offset + length].copy_from_slice(&value.to_le_bytes()[..length]);
        }
        self.headers.extend_from_slice(&header);
        self.count += 1;
    }
}

/// The attributes of a kernel with parameters of these sizes, in the order of NVIDIA's compiler: the last parameter first.
fn attributes(sizes: &[u32]) -> Vec<u8> {
    let (mut offset, mut all) = (0_u32, Vec::new());
    for (index, &size) in sizes.iter().enumerate() {
        offset = offset.next_multiple_of(size.clamp(1, 8));
        let mut attribute = vec![4, 0x17, 12, 0, 0, 0, 0, 0];
        attribute.extend((index as u16).to_le_bytes());
        attribute.extend((offset as u16).to_le_bytes());
        attribute.extend((size << 18 | 0x1_f000).to_le_bytes());
        all.push(attribute);
        offset += size;
    }
    let mut bytes: Vec<u8> = all.into_iter().rev().flatten().collect();
    if offset > 0 {
        bytes.extend([3, 0x19]);
        bytes.extend((offset as u16).to_le_bytes());
    }
    bytes
}

/// Builds an image with these kernels: `name(size,size);name()`, with the sizes of their parameters.
#[must_use]
pub fn image(kernels: &str) -> Vec<u8> {
    const PROGBITS: u32 = 1;
    const SYMTAB: u32 = 2;
    const STRTAB: u32 = 3;
    let mut builder = Builder { file: vec![0; 64], ..Builder::default() };
    builder.names.push(0);
    builder.header(0, 0, (0, 0), (0, 0));
    builder.file.extend_from_slice(MAGIC.as_bytes());
    builder.file.extend_from_slice(kernels.as_bytes());
    builder.file.push(0);
    builder.section(".fakecuda", PROGBITS, 64, (0, 0));
    let from = builder.file.len();
    builder.file.push(0);
    builder.section(".strtab", STRTAB, from, (0, 0));
    let from = builder.file.len();
    builder.file.extend([0; 24]);
    builder.section(".symtab", SYMTAB, from, (2, 24));
    for kernel in kernels.split(';') {
        let Some((name, sizes)) = kernel.strip_suffix(')').and_then(|kernel| kernel.split_once('(')) else { continue };
        let sizes: Vec<u32> = sizes.split(',').filter_map(|size| size.parse().ok()).collect();
        let from = builder.file.len();
        builder.section(&format!(".text.{name}"), PROGBITS, from, (0, 0));
        builder.file.extend(attributes(&sizes));
        builder.section(&format!(".nv.info.{name}"), PROGBITS, from, (0, 0));
    }
    let (from, name) = (builder.file.len(), builder.names.len() as u32);
    builder.names.extend_from_slice(b".shstrtab\0");
    builder.file.extend_from_slice(&builder.names);
    builder.header(name, STRTAB, (from, builder.names.len()), (0, 0));
    let Builder { mut file, headers, count, .. } = builder;
    let table = file.len() as u64;
    file.extend(headers);
    file[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\x41");
    // EM_CUDA.
    file[0x12..0x14].copy_from_slice(&190_u16.to_le_bytes());
    file[0x28..0x30].copy_from_slice(&table.to_le_bytes());
    file[0x34..0x36].copy_from_slice(&64_u16.to_le_bytes());
    file[0x3a..0x3c].copy_from_slice(&64_u16.to_le_bytes());
    file[0x3c..0x3e].copy_from_slice(&count.to_le_bytes());
    file[0x3e..0x40].copy_from_slice(&(count - 1).to_le_bytes());
    file
}

/// Builds the image for a generated source: the kernel `elementwise` with one parameter, as many 64-bit words as the source's
/// `#define WORDS` says.
///
/// # Errors
/// The source has no such definition.
pub fn image_from_text(text: &str) -> Result<Vec<u8>, String> {
    let words = text.lines().find_map(|line| line.strip_prefix("#define WORDS ")?.trim().parse::<u32>().ok());
    let words = words.ok_or("error: the source is not generated from an expression")?;
    Ok(image(&format!("elementwise({})", 8 * words)))
}
