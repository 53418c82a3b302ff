// SPDX-License-Identifier: GPL-2.0

//! Orders that have a number and a structure, of programs or of the kernel.

use core::marker::PhantomData;
use kernel::prelude::*;
use kernel::uaccess::{
    UserPtr,
    UserSlice, //
};
use kernel::uapi;
use zerocopy::{
    FromBytes,
    Immutable,
    IntoBytes, //
};

/// Where the structure is.
#[derive(Clone, Copy)]
enum Argument {
    /// At an address of the program that is being served.
    Program(usize),
    /// In memory of the kernel.
    Kernel(*mut u8),
}

/// An order, lent for the call `'a`.
///
/// # Invariants
///
/// What an argument of the kernel points to has the size that `number` says, and may be written if that says that the order
/// returns it, and read if that says that the order brings it.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    number: u32,
    nonblocking: bool,
    argument: Argument,
    lent: PhantomData<&'a mut [u8]>,
}

impl Call<'_> {
    /// An order of the program that is being served.
    pub(crate) fn of_program(number: u32, nonblocking: bool, argument: usize) -> Self {
        // INVARIANT: It is none of the kernel.
        Self {
            number,
            nonblocking,
            argument: Argument::Program(argument),
            lent: PhantomData,
        }
    }

    /// An order of the kernel, which does not wait.
    ///
    /// # Safety
    ///
    /// For its life `argument` points to the structure that belongs to the number, and nobody else writes to that, or uses
    /// it if the order returns it.
    pub(crate) unsafe fn of_kernel(number: u32, argument: *mut c_void) -> Self {
        // INVARIANT: Promised by the caller.
        Self {
            number,
            nonblocking: true,
            argument: Argument::Kernel(argument.cast()),
            lent: PhantomData,
        }
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether it must not wait.
    pub fn nonblocking(&self) -> bool {
        self.nonblocking
    }

    /// Reads the structure that the argument points to, which has to be that of the number.
    ///
    /// # Errors
    ///
    /// `EFAULT`; `EINVAL` if the structure is another one, or if it is an order of the kernel that brings nothing, by
    /// its number.
    pub fn read<T: FromBytes + IntoBytes>(&self) -> Result<T> {
        let mut value = T::new_zeroed();
        let to = value.as_mut_bytes();
        match self.argument {
            Argument::Program(address) => {
                UserSlice::new(UserPtr::from_addr(address), to.len())
                    .reader()
                    .read_slice(to)?;
            }
            Argument::Kernel(from) => {
                self.check_size::<T>()?;
                if kernel::ioctl::_IOC_DIR(self.number) & uapi::_IOC_WRITE == 0 {
                    return Err(EINVAL);
                }
                // SAFETY: There are so many bytes by the invariant, as the number says so, and `to` is ours.
                unsafe { to.as_mut_ptr().copy_from_nonoverlapping(from, to.len()) };
            }
        }
        Ok(value)
    }

    /// Writes it.
    ///
    /// # Errors
    ///
    /// As [`Self::read`]; `EINVAL` also for an order of the kernel that returns nothing, by its number.
    pub fn write<T: IntoBytes + Immutable>(&self, value: &T) -> Result {
        let from = value.as_bytes();
        match self.argument {
            Argument::Program(address) => UserSlice::new(UserPtr::from_addr(address), from.len())
                .writer()
                .write_slice(from),
            Argument::Kernel(to) => {
                self.check_size::<T>()?;
                if kernel::ioctl::_IOC_DIR(self.number) & uapi::_IOC_READ == 0 {
                    return Err(EINVAL);
                }
                // SAFETY: There are so many bytes by the invariant, as the number says so, and nobody else uses them.
                unsafe { to.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
                Ok(())
            }
        }
    }

    fn check_size<T>(&self) -> Result {
        if kernel::ioctl::_IOC_SIZE(self.number) != core::mem::size_of::<T>() {
            return Err(EINVAL);
        }
        Ok(())
    }
}

#[kunit_tests(sib_rdma_call)]
mod tests {
    use super::*;
    use kernel::ioctl::{
        _IOW,
        _IOWR, //
    };

    const TAKES: u32 = _IOW::<u64>(0, 0);
    const RETURNS: u32 = _IOWR::<u64>(0, 0);

    #[test]
    fn only_what_is_returned_is_written() -> Result {
        let mut it = 7u64;
        let argument = (&raw mut it).cast();
        // SAFETY: It is there, and used by nobody else.
        let call = unsafe { Call::of_kernel(TAKES, argument) };
        assert_eq!(call.read::<u64>()?, 7);
        assert_eq!(call.write(&8u64).err(), Some(EINVAL));
        // SAFETY: As above.
        let call = unsafe { Call::of_kernel(RETURNS, argument) };
        assert_eq!(call.write(&8u32).err(), Some(EINVAL));
        call.write(&8u64)?;
        assert_eq!(call.read::<u64>()?, 8);
        Ok(())
    }
}
