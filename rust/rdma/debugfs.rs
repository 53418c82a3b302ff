// SPDX-License-Identifier: GPL-2.0

//! Files in debugfs: text that is read and written, and streams of bytes, by functions that have the tokens of
//! a task.
//!
//! C header: [`include/linux/debugfs.h`](srctree/include/linux/debugfs.h)

use crate::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use kernel::alloc::KVVec;
pub use kernel::debugfs::Dir;
use kernel::debugfs::{
    BinaryWriter,
    File,
    Reader,
    Writer, //
};
use kernel::fmt;
use kernel::fs::file;
use kernel::prelude::*;
use kernel::uaccess::{
    UserSliceReader,
    UserSliceWriter, //
};

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
    /// What the writer gets to see: `EPERM` unless there is something to be written.
    fn store(&self, _cx: Cx<'_, Unlocked>, _sleepable: Sleepable<'_>, _text: &str) -> Result {
        Err(EPERM)
    }
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

/// The most bytes that one read of a stream returns.
const MAX_CHUNK: usize = 65536;

/// What stands behind a file that is read as a stream: each byte once.
pub trait Stream: Send + Sync + 'static {
    /// Moves what there is to the front of `out`, and returns the number of bytes. Does not wait.
    ///
    /// # Errors
    ///
    /// What the reader gets to see.
    fn read(&self, cx: Cx<'_, Unlocked>, sleepable: Sleepable<'_>, out: &mut [u8])
        -> Result<usize>;
}

struct Drain<T>(T);

impl<T: Stream> BinaryWriter for Drain<T> {
    fn write_to_slice(
        &self,
        writer: &mut UserSliceWriter,
        _offset: &mut file::Offset,
    ) -> Result<usize> {
        let mut bytes = KVVec::from_elem(0u8, writer.len().min(MAX_CHUNK), GFP_KERNEL)?;
        // SAFETY: debugfs calls this in the task that reads, which holds no lock of ours.
        let cx = unsafe { Cx::root() };
        // SAFETY: As above.
        let sleepable = unsafe { Sleepable::new() };
        let len = self.0.read(cx, sleepable, &mut bytes)?;
        writer.write_slice(bytes.get(..len).ok_or(EIO)?)?;
        Ok(len)
    }
}

/// A stream, which is there until this is dropped. Dropping waits for those who read.
pub struct StreamFile<T: Stream> {
    _file: Pin<KBox<File<Drain<T>>>>,
}

impl<T: Stream> StreamFile<T> {
    /// Makes the file `name` in `dir`. Without debugfs, or if there is one of that name, nobody sees it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(dir: &Dir, name: &CStr, stream: T) -> Result<Self> {
        let file = dir.read_binary_file(name, Ok::<_, Error>(Drain(stream)));
        Ok(Self {
            _file: KBox::pin_init(file, GFP_KERNEL)?,
        })
    }
}
