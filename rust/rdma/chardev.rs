// SPDX-License-Identifier: GPL-2.0

//! Character devices that programs talk to by ioctls and wait for with poll.
//!
//! The kernel's own abstraction has no poll, and does not keep the module while a file is open. A file knows nothing of
//! the device that it was opened by, which may go before it.
//!
//! C headers: [`include/linux/miscdevice.h`](srctree/include/linux/miscdevice.h),
//! [`include/linux/fs.h`](srctree/include/linux/fs.h)

use crate::call::Call;
use crate::module;
use crate::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use core::marker::PhantomData;
use kernel::bindings;
use kernel::container_of;
use kernel::error::{
    from_result,
    to_result, //
};
use kernel::fs::File;
use kernel::prelude::*;
use kernel::str::CStrExt;
use kernel::sync::poll::{
    PollCondVar,
    PollTable, //
};
use kernel::sync::Arc;
use kernel::types::{
    ForeignOwnable,
    Opaque, //
};

/// There is something to be read.
const READABLE: bindings::__poll_t = bindings::POLLIN | bindings::POLLRDNORM;

/// What an open file is.
pub trait Session: Send + Sync + Sized + 'static {
    /// The module that this is a part of (see [`this_module!`](crate::this_module)), which stays while a file is open.
    const MODULE: &'static ThisModule;

    /// What all files of the device have in common.
    type Shared: Send + Sync + 'static;

    /// Somebody opens the device.
    fn open(shared: &Arc<Self::Shared>) -> Result<Arc<Self>>;

    /// An ioctl.
    ///
    /// # Errors
    ///
    /// `ENOTTY` for a number that is not known.
    fn ioctl(
        self: &Arc<Self>,
        cx: Cx<'_, Unlocked>,
        s: Sleepable<'_>,
        call: Call<'_>,
    ) -> Result<isize>;

    /// What is notified when [`Self::is_ready`] may have become true.
    fn waiters(&self) -> &PollCondVar;

    /// Whether there is something to be read.
    fn is_ready(&self) -> bool;

    /// The file has been closed.
    fn close(self: Arc<Self>, cx: Cx<'_, Unlocked>, s: Sleepable<'_>);
}

/// What the C side has.
struct Node<S: Session> {
    misc: Opaque<bindings::miscdevice>,
    shared: Arc<S::Shared>,
}

/// A device, which is there until this is dropped. While a file is open the module stays. Nobody can open one before the
/// module has been loaded.
///
/// # Invariants
///
/// The device is registered.
pub struct Device<S: Session> {
    node: Pin<KBox<Node<S>>>,
}

// SAFETY: A device may be deregistered by any task; the rest is `Send`.
unsafe impl<S: Session> Send for Device<S> {}
// SAFETY: A shared reference gives access to nothing.
unsafe impl<S: Session> Sync for Device<S> {}

impl<S: Session> Device<S> {
    /// Makes `/dev/NAME`, for root alone unless udev has other orders.
    pub fn new(name: &'static CStr, shared: Arc<S::Shared>) -> Result<Self> {
        let node = KBox::pin(
            Node {
                misc: Opaque::new(bindings::miscdevice {
                    minor: bindings::MISC_DYNAMIC_MINOR as c_int,
                    name: name.as_char_ptr(),
                    fops: Calls::<S>::TABLE,
                    ..pin_init::zeroed()
                }),
                shared,
            },
            GFP_KERNEL,
        )?;
        // SAFETY: The structure stays in place until it is deregistered.
        to_result(unsafe { bindings::misc_register(node.misc.get()) })?;
        // INVARIANT: Just registered.
        Ok(Self { node })
    }
}

impl<S: Session> Drop for Device<S> {
    fn drop(&mut self) {
        // SAFETY: Registered by the invariant. This waits for who is opening a file, and no more is opened.
        unsafe { bindings::misc_deregister(self.node.misc.get()) };
    }
}

/// What the kernel calls for files of `S`.
struct Calls<S>(PhantomData<S>);

impl<S: Session> Calls<S> {
    /// What the kernel has of a file. It is a part of the module, since it is looked at after the file has been released.
    const TABLE: &'static bindings::file_operations = &bindings::file_operations {
        owner: S::MODULE.as_ptr(),
        open: Some(Self::open),
        release: Some(Self::release),
        unlocked_ioctl: Some(Self::ioctl),
        compat_ioctl: bindings::compat_ptr_ioctl,
        poll: Some(Self::poll),
        ..pin_init::zeroed()
    };

    /// The tokens of a system call.
    ///
    /// # Safety
    ///
    /// The caller has just been entered from the file layer, and makes no other token.
    unsafe fn tokens<'a>() -> (Cx<'a, Unlocked>, Sleepable<'a>) {
        // SAFETY: System calls are tasks that hold no lock of ours.
        unsafe { (Cx::root(), Sleepable::new()) }
    }

    /// # Safety
    ///
    /// `file` is a file of a `Node<S>` whose `open` has succeeded, and which has not been released.
    unsafe fn session<'a>(file: *mut bindings::file) -> kernel::sync::ArcBorrow<'a, S> {
        // SAFETY: `open` has stored it.
        unsafe { Arc::<S>::borrow((*file).private_data) }
    }

    /// # Safety
    ///
    /// Called by the file layer.
    unsafe extern "C" fn open(_inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        from_result(|| {
            module::check_loaded(S::MODULE)?;
            // SAFETY: Until this returns it is the device, which is not deregistered meanwhile.
            let node = unsafe {
                &*container_of!(
                    Opaque::cast_from((*file).private_data.cast::<bindings::miscdevice>()),
                    Node<S>,
                    misc
                )
            };
            let session = S::open(&node.shared)?;
            // SAFETY: From here on it is ours.
            unsafe { (*file).private_data = session.into_foreign() };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// Called by the file layer.
    unsafe extern "C" fn release(_inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: Stored by `open`, and nobody uses the file any more.
        let session = unsafe { Arc::<S>::from_foreign((*file).private_data) };
        // SAFETY: Entered from the file layer.
        let (cx, s) = unsafe { Self::tokens() };
        session.close(cx, s);
        0
    }

    /// # Safety
    ///
    /// Called by the file layer.
    unsafe extern "C" fn ioctl(
        file: *mut bindings::file,
        number: c_uint,
        argument: c_ulong,
    ) -> c_long {
        // SAFETY: The file is open.
        let session: Arc<S> = unsafe { Self::session(file) }.into();
        // SAFETY: As above.
        let flags = unsafe { (*file).f_flags };
        // SAFETY: Entered from the file layer.
        let (cx, s) = unsafe { Self::tokens() };
        let call = Call::of_program(number, flags & bindings::O_NONBLOCK != 0, argument);
        match session.ioctl(cx, s, call) {
            Ok(value) => value as c_long,
            Err(err) => err.to_errno() as c_long,
        }
    }

    /// # Safety
    ///
    /// Called by the file layer.
    unsafe extern "C" fn poll(
        file: *mut bindings::file,
        table: *mut bindings::poll_table_struct,
    ) -> bindings::__poll_t {
        // SAFETY: The file is open.
        let session = unsafe { Self::session(file) };
        // SAFETY: Lent for the call, or null; as is the file, of which nobody here changes the position.
        let (table, file) = unsafe { (PollTable::from_raw(table), File::from_raw_file(file)) };
        table.register_wait(file, session.waiters());
        if session.is_ready() {
            READABLE
        } else {
            0
        }
    }
}
