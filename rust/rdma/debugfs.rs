// SPDX-License-Identifier: GPL-2.0

//! Files in debugfs that are read and written as text, by functions that have the tokens of a task.
//!
//! C header: [`include/linux/debugfs.h`](srctree/include/linux/debugfs.h)

use crate::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
pub use kernel::debugfs::Dir;
use kernel::debugfs::{
    File,
    Reader,
    Writer, //
};
use kernel::fmt;
use kernel::prelude::*;
use kernel::uaccess::UserSliceReader;

/// The longest text that is taken in one write.
const MAX_TEXT: usize = 4096;

/// What stands behind a file.
pub trait Control: Send + Sync + 'static {
    /// Somebody reads the file.
    fn show(
        &self,
        cx: Cx<'_, Unlocked>,
        sleepable: Sleepable<'_>,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result;

    /// Somebody has written `text` to it.
    ///
    /// # Errors
    ///
    /// What the writer gets to see.
    fn store(&self, cx: Cx<'_, Unlocked>, sleepable: Sleepable<'_>, text: &str) -> Result;
}

struct Adapter<T>(T);

impl<T: Control> Writer for Adapter<T> {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: debugfs calls this in the task that reads, which holds no lock of ours.
        let cx = unsafe { Cx::root() };
        // SAFETY: As above.
        let sleepable = unsafe { Sleepable::new() };
        self.0.show(cx, sleepable, f)
    }
}

impl<T: Control> Reader for Adapter<T> {
    fn read_from_slice(&self, reader: &mut UserSliceReader) -> Result {
        let len = reader.len();
        if len > MAX_TEXT {
            return Err(E2BIG);
        }
        let mut text = KVec::from_elem(0u8, len, GFP_KERNEL)?;
        reader.read_slice(&mut text)?;
        let text = core::str::from_utf8(&text).map_err(|_| EINVAL)?;
        // SAFETY: debugfs calls this in the task that writes, which holds no lock of ours.
        let cx = unsafe { Cx::root() };
        // SAFETY: As above.
        let sleepable = unsafe { Sleepable::new() };
        self.0.store(cx, sleepable, text)
    }
}

/// A file, which is there until this is dropped. Dropping waits for those who read or write.
pub struct ControlFile<T: Control> {
    _file: Pin<KBox<File<Adapter<T>>>>,
}

impl<T: Control> ControlFile<T> {
    /// Makes the file `name` in `dir`. Without debugfs, or if there is one of that name, nobody sees it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(dir: &Dir, name: &CStr, control: T) -> Result<Self> {
        let file = dir.read_write_file(name, Ok::<_, Error>(Adapter(control)));
        Ok(Self {
            _file: KBox::pin_init(file, GFP_KERNEL)?,
        })
    }
}
