// SPDX-License-Identifier: GPL-2.0

//! Files in debugfs: text that is read and written, and streams of bytes, by functions that have the tokens of
//! a task.
//!
//! What the kernel calls for an open file is a part of the module, and is looked at once more when the file is closed.
//! The kernel's own abstraction does not keep the module until then.
//!
//! C header: [`include/linux/debugfs.h`](srctree/include/linux/debugfs.h)

use crate::module;
use crate::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use core::marker::PhantomData;
use core::ptr;
use kernel::alloc::KVVec;
use kernel::bindings;
use kernel::error::from_result;
use kernel::fmt;
use kernel::prelude::*;
use kernel::seq_file::SeqFile;
use kernel::seq_print;
use kernel::str::CStrExt;
use kernel::sync::Arc;
use kernel::uaccess::{
    UserPtr,
    UserSlice, //
};

/// A folder or a file, which is there until this is dropped. That waits for those who read or write.
///
/// # Invariants
///
/// `raw` is an entry of debugfs that this alone removes, or what debugfs takes in place of one that could not be made.
struct Entry {
    raw: *mut bindings::dentry,
}

// SAFETY: An entry may be used and removed by any task.
unsafe impl Send for Entry {}
// SAFETY: As above.
unsafe impl Sync for Entry {}

impl Drop for Entry {
    fn drop(&mut self) {
        // SAFETY: Ours by the invariant.
        unsafe { sib_bindings::sib_helper_debugfs_remove(self.raw) };
    }
}

/// What a [`Dir`] and those in it share.
struct Folder {
    entry: Entry,
    _parent: Option<Dir>,
}

/// A folder, which is there until the last clone of this is dropped, and all that is in it. Without debugfs, or if there
/// is one of that name, nobody sees it.
#[derive(Clone)]
pub struct Dir(Arc<Folder>);

impl Dir {
    /// Makes the folder `name`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(name: &CStr) -> Result<Self> {
        Self::within(name, None)
    }

    /// Makes the folder `name` in this one. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn subdir(&self, name: &CStr) -> Result<Self> {
        Self::within(name, Some(self.clone()))
    }

    fn within(name: &CStr, parent: Option<Self>) -> Result<Self> {
        let outer = parent.as_ref().map_or(ptr::null_mut(), Self::raw);
        // SAFETY: The name is copied; the parent is kept, and none stands for the root.
        let raw = unsafe { sib_bindings::sib_helper_debugfs_dir(name.as_char_ptr(), outer) };
        // INVARIANT: Just made, or an error.
        let folder = Folder {
            entry: Entry { raw },
            _parent: parent,
        };
        Ok(Self(Arc::new(folder, GFP_KERNEL)?))
    }

    /// Calls the folder `name` from now on, unless there is one of that name. May sleep.
    pub fn rename(&self, name: &CStr) {
        // SAFETY: The entry is there as long as this is, or an error, which is left alone; the name is copied.
        unsafe { sib_bindings::sib_helper_debugfs_rename(self.raw(), name.as_char_ptr()) };
    }

    fn raw(&self) -> *mut bindings::dentry {
        self.0.entry.raw
    }
}

/// A file, and what stands behind it.
struct Node<T> {
    _entry: Entry,
    _dir: Dir,
    /// Dropped after the entry.
    _of: KBox<T>,
}

impl<T: Send + Sync + 'static> Node<T> {
    /// Makes the file `name` in `dir`.
    ///
    /// # Safety
    ///
    /// The functions of `calls` may be called for a file whose inode has a pointer to a `T`.
    unsafe fn new(
        dir: &Dir,
        name: &CStr,
        calls: &'static bindings::file_operations,
        of: T,
    ) -> Result<Self> {
        let of = KBox::new(of, GFP_KERNEL)?;
        let data = (&raw const *of).cast_mut().cast();
        // SAFETY: The name is copied, the folder is kept. What stands behind the file stays in place until the entry has
        // been removed, after which nobody reads or writes.
        let raw = unsafe {
            sib_bindings::sib_helper_debugfs_file(name.as_char_ptr(), dir.raw(), data, calls)
        };
        // INVARIANT: Just made, or an error.
        Ok(Self {
            _entry: Entry { raw },
            _dir: dir.clone(),
            _of: of,
        })
    }
}

/// The tokens of a system call.
///
/// # Safety
///
/// The caller has just been entered from debugfs, and makes no other token.
unsafe fn tokens<'a>() -> (Cx<'a, Unlocked>, Sleepable<'a>) {
    // SAFETY: System calls are tasks that hold no lock of ours.
    unsafe { (Cx::root(), Sleepable::new()) }
}

/// The longest text that is taken in one write.
const MAX_TEXT: usize = 4096;

/// What stands behind a file.
pub trait Control: Send + Sync + Sized + 'static {
    /// The module that this is a part of (see [`this_module!`](crate::this_module)), which stays while a file is open.
    const MODULE: &'static ThisModule;

    /// Whether there is something to be written. Where there is not, a kernel that is locked down, as with Secure Boot,
    /// has root read the file all the same.
    const IS_WRITABLE: bool = true;

    /// Somebody reads the file.
    fn show(
        &self,
        cx: Cx<'_, Unlocked>,
        sleepable: Sleepable<'_>,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result;

    /// Somebody has written `text` to it. Not called unless [`Self::IS_WRITABLE`], without which the writer gets `EINVAL`.
    ///
    /// # Errors
    ///
    /// What the writer gets to see.
    fn store(&self, _cx: Cx<'_, Unlocked>, _sleepable: Sleepable<'_>, _text: &str) -> Result {
        Err(EPERM)
    }
}

/// What is read of a file.
struct Shown<'a, T>(&'a T);

impl<T: Control> fmt::Display for Shown<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: debugfs has this done in the task that reads.
        let (cx, sleepable) = unsafe { tokens() };
        self.0.show(cx, sleepable, f)
    }
}

/// What the kernel calls for files of `T`.
struct Calls<T>(PhantomData<T>);

impl<T: Control> Calls<T> {
    const TEXT: &'static bindings::file_operations = &bindings::file_operations {
        owner: T::MODULE.as_ptr(),
        open: Some(Self::open),
        read: Some(bindings::seq_read),
        write: if T::IS_WRITABLE {
            Some(Self::write)
        } else {
            None
        },
        llseek: Some(bindings::seq_lseek),
        release: Some(bindings::single_release),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// Called by debugfs for a file of [`Node<T>`].
    unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        from_result(|| {
            module::check_loaded(T::MODULE)?;
            // SAFETY: The file is new. What is shown gets what the inode has.
            Ok(unsafe { bindings::single_open(file, Some(Self::show), (*inode).i_private) })
        })
    }

    /// # Safety
    ///
    /// Called for a `seq_file` that [`Self::open`] has made, while the file is there.
    unsafe extern "C" fn show(seq: *mut bindings::seq_file, _: *mut c_void) -> c_int {
        // SAFETY: By the promise; what stands behind the file is only ever shared.
        let (seq, of) = unsafe { (SeqFile::from_raw(seq), &*(*seq).private.cast::<T>()) };
        seq_print!(seq, "{}", Shown(of));
        0
    }

    /// # Safety
    ///
    /// Called by debugfs for a file that [`Self::open`] has opened, while it is there.
    unsafe extern "C" fn write(
        file: *mut bindings::file,
        from: *const c_char,
        len: usize,
        _: *mut bindings::loff_t,
    ) -> isize {
        let written = || -> Result {
            if len > MAX_TEXT {
                return Err(E2BIG);
            }
            let mut text = KVec::from_elem(0u8, len, GFP_KERNEL)?;
            UserSlice::new(UserPtr::from_addr(from.addr()), len)
                .reader()
                .read_slice(&mut text)?;
            let text = core::str::from_utf8(&text).map_err(|_| EINVAL)?;
            // SAFETY: `open` has made the `seq_file`.
            let seq = unsafe { (*file).private_data.cast::<bindings::seq_file>() };
            // SAFETY: As in `show`.
            let of = unsafe { &*(*seq).private.cast::<T>() };
            // SAFETY: Entered from debugfs.
            let (cx, sleepable) = unsafe { tokens() };
            of.store(cx, sleepable, text)
        };
        match written() {
            Ok(()) => len as isize,
            Err(err) => err.to_errno() as isize,
        }
    }
}

/// A file, which is there until this is dropped. Dropping waits for those who read or write.
pub struct ControlFile<T: Control> {
    _node: Node<T>,
}

impl<T: Control> ControlFile<T> {
    /// Makes the file `name` in `dir`. Without debugfs, or if there is one of that name, nobody sees it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(dir: &Dir, name: &CStr, control: T) -> Result<Self> {
        // SAFETY: They are for such files.
        let node = unsafe { Node::new(dir, name, Calls::<T>::TEXT, control) }?;
        Ok(Self { _node: node })
    }
}

/// What several files show something of.
pub trait Viewed: Send + Sync + 'static {
    /// As [`Control::MODULE`].
    const MODULE: &'static ThisModule;
}

/// What a file shows of a `T`.
pub type Show<T> = fn(&T, Cx<'_, Unlocked>, Sleepable<'_>, &mut fmt::Formatter<'_>) -> fmt::Result;

/// What stands behind a file that is read only.
pub struct View<T: Viewed> {
    of: Arc<T>,
    show: Show<T>,
}

impl<T: Viewed> View<T> {
    /// A view of `of`, which is kept.
    pub fn new(of: &Arc<T>, show: Show<T>) -> Self {
        let of = of.clone();
        Self { of, show }
    }
}

impl<T: Viewed> Control for View<T> {
    const MODULE: &'static ThisModule = T::MODULE;
    const IS_WRITABLE: bool = false;

    fn show(
        &self,
        cx: Cx<'_, Unlocked>,
        sleepable: Sleepable<'_>,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        (self.show)(&self.of, cx, sleepable, f)
    }
}

/// The most bytes that one read of a stream returns.
const MAX_CHUNK: usize = 65536;

/// What stands behind a file that is read as a stream: each byte once.
pub trait Stream: Send + Sync + Sized + 'static {
    /// The module that this is a part of (see [`this_module!`](crate::this_module)), which stays while a file is open.
    const MODULE: &'static ThisModule;

    /// Moves what there is to the front of `out`, and returns the number of bytes. Does not wait.
    ///
    /// # Errors
    ///
    /// What the reader gets to see.
    fn read(&self, cx: Cx<'_, Unlocked>, sleepable: Sleepable<'_>, out: &mut [u8])
        -> Result<usize>;
}

/// What the kernel calls for files that are streams of `T`.
struct StreamCalls<T>(PhantomData<T>);

impl<T: Stream> StreamCalls<T> {
    const BYTES: &'static bindings::file_operations = &bindings::file_operations {
        owner: T::MODULE.as_ptr(),
        open: Some(Self::open),
        read: Some(Self::read),
        llseek: Some(bindings::default_llseek),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// Called by debugfs for a file of [`Node<T>`].
    unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        from_result(|| {
            module::check_loaded(T::MODULE)?;
            // SAFETY: The file is new, and has room for what the inode has.
            unsafe { (*file).private_data = (*inode).i_private };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// Called by debugfs for a file that [`Self::open`] has opened, while it is there.
    unsafe extern "C" fn read(
        file: *mut bindings::file,
        to: *mut c_char,
        room: usize,
        _: *mut bindings::loff_t,
    ) -> isize {
        let len = || -> Result<usize> {
            let mut bytes = KVVec::from_elem(0u8, room.min(MAX_CHUNK), GFP_KERNEL)?;
            // SAFETY: By the promise; what stands behind the file is only ever shared.
            let of = unsafe { &*(*file).private_data.cast::<T>() };
            // SAFETY: Entered from debugfs.
            let (cx, sleepable) = unsafe { tokens() };
            let len = of.read(cx, sleepable, &mut bytes)?;
            UserSlice::new(UserPtr::from_addr(to.addr()), room)
                .writer()
                .write_slice(bytes.get(..len).ok_or(EIO)?)?;
            Ok(len)
        };
        match len() {
            Ok(len) => len as isize,
            Err(err) => err.to_errno() as isize,
        }
    }
}

/// A stream, which is there until this is dropped. Dropping waits for those who read.
pub struct StreamFile<T: Stream> {
    _node: Node<T>,
}

impl<T: Stream> StreamFile<T> {
    /// Makes the file `name` in `dir`. Without debugfs, or if there is one of that name, nobody sees it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(dir: &Dir, name: &CStr, stream: T) -> Result<Self> {
        // SAFETY: They are for such files.
        let node = unsafe { Node::new(dir, name, StreamCalls::<T>::BYTES, stream) }?;
        Ok(Self { _node: node })
    }
}
