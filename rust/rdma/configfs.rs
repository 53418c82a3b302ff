// SPDX-License-Identifier: GPL-2.0

//! Subsystems of configfs whose registration may fail, and what is read of their files.
//!
//! The kernel's own initialiser drops a subsystem that could not be registered, which deregisters it all the same: an
//! oops.
//!
//! C header: [`include/linux/configfs.h`](srctree/include/linux/configfs.h)

use core::cell::Cell;
use core::fmt::Write;
use core::mem::MaybeUninit;
use core::ptr::{
    self,
    NonNull, //
};
use kernel::bindings;
use kernel::configfs::{
    HasGroup,
    ItemType,
    Subsystem, //
};
use kernel::container_of;
use kernel::error::to_result;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

/// An initialiser that puts `data` in their place, notes it, and stops there: before the registration.
fn stop<Data>(data: Data, place: &Cell<*mut Data>) -> impl PinInit<Data, Error> + '_ {
    let put = |slot: *mut Data| {
        // SAFETY: Valid for writes by the promise of the caller.
        unsafe { slot.write(data) };
        place.set(slot);
        Err(EAGAIN)
    };
    // SAFETY: It never succeeds. Who gets to know the place has taken the data over.
    unsafe { pin_init::pin_init_from_closure(put) }
}

/// The digits of a GUID.
const GUID_DIGITS: usize = 16;

/// The GUID of 16 hexadecimal digits, with colons or without.
///
/// # Errors
///
/// `EINVAL` for anything else.
pub fn guid(text: &[u8]) -> Result<u64> {
    let digits = || text.iter().filter(|byte| **byte != b':');
    if digits().count() != GUID_DIGITS {
        return Err(EINVAL);
    }
    digits().try_fold(0u64, |guid, byte| {
        let digit = char::from(*byte).to_digit(16).ok_or(EINVAL)?;
        Ok(guid << 4 | u64::from(digit))
    })
}

/// Makes the folder `name` at the root of configfs. May sleep.
///
/// # Errors
///
/// `ENOMEM`; `EEXIST` if there is one of that name.
pub fn register<Data: Send + Sync>(
    name: &'static CStr,
    kind: &'static ItemType<Subsystem<Data>, Data>,
    data: Data,
) -> Result<Pin<KBox<Subsystem<Data>>>> {
    let mut room = KBox::<Subsystem<Data>>::new_uninit(GFP_KERNEL)?;
    let subsystem = room.as_mut_ptr();
    let place = Cell::new(ptr::null_mut());
    let init = Subsystem::new(name, kind, stop(data, &place));
    // SAFETY: There is room, which is pinned below or given back, and nobody else knows of it.
    let slot = unsafe { &mut *subsystem.cast::<MaybeUninit<Subsystem<Data>>>() };
    let stopped = slot.write_pin_init(init).map(|_| ());
    let Some(data) = NonNull::new(place.get()) else {
        return stopped.and(Err(EINVAL));
    };
    // The data are the last field, and dropping the first one does nothing, so that both are complete.
    // SAFETY: In the room.
    let group = unsafe { Subsystem::group(subsystem) };
    // SAFETY: The group of a subsystem is a part of its C structure.
    let raw = unsafe { container_of!(group, bindings::configfs_subsystem, su_group) };
    // SAFETY: Initialised, not registered, and it stays in place until it is deregistered.
    if let Err(err) = to_result(unsafe { bindings::configfs_register_subsystem(raw.cast_mut()) }) {
        // SAFETY: Initialised, and nobody else knows of them.
        unsafe { data.drop_in_place() };
        return Err(err);
    }
    // SAFETY: Both fields are initialised; it is registered, as its drop expects.
    Ok(KBox::into_pin(unsafe { room.assume_init() }))
}

/// A page that text is written to.
struct Cursor<'a> {
    page: &'a mut [u8; PAGE_SIZE],
    len: usize,
}

impl Write for Cursor<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = self.page.get_mut(self.len..).unwrap_or_default();
        if text.len() > room.len() {
            return Err(core::fmt::Error);
        }
        for (to, from) in room.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        self.len = self.len.saturating_add(text.len());
        Ok(())
    }
}

/// Writes formatted text to `page`, and returns its length in bytes.
///
/// # Errors
///
/// `EMSGSIZE` if it does not fit.
pub fn show(page: &mut [u8; PAGE_SIZE], args: kernel::fmt::Arguments<'_>) -> Result<usize> {
    let mut cursor = Cursor { page, len: 0 };
    cursor.write_fmt(args).map_err(|_| EMSGSIZE)?;
    Ok(cursor.len)
}
