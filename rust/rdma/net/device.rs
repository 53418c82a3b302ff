// SPDX-License-Identifier: GPL-2.0

//! Network devices, as the underlay of a fabric.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

use super::addr;
use core::net::SocketAddr;
use core::ptr::NonNull;
use kernel::bindings;
use kernel::prelude::*;

/// The size of a device name with its terminator, `IFNAMSIZ`.
const NAME_SIZE: usize = 16;

/// The largest hardware address, `MAX_ADDR_LEN`.
const MAX_ADDRESS: usize = 32;

/// `name` with its terminator.
fn terminated(name: &[u8]) -> Result<[u8; NAME_SIZE]> {
    let mut text = [0u8; NAME_SIZE];
    for (to, from) in text.iter_mut().take(NAME_SIZE - 1).zip(name) {
        *to = *from;
    }
    if name.len() >= NAME_SIZE {
        return Err(ENODEV);
    }
    Ok(text)
}

/// A counted reference to a network device.
///
/// A device that is being unregistered waits for all references: drop this soon after
/// [`DeviceEvent::Unregister`](super::DeviceEvent).
///
/// # Invariants
///
/// `raw` is a live device, of which one reference is counted for this value.
pub struct NetDevice {
    raw: NonNull<bindings::net_device>,
}

// SAFETY: A device may be used and released by any context.
unsafe impl Send for NetDevice {}
// SAFETY: The methods read fields that may change at any time, in one access each.
unsafe impl Sync for NetDevice {}

impl NetDevice {
    /// Takes a reference.
    ///
    /// # Safety
    ///
    /// `raw` is a live device.
    pub(crate) unsafe fn get(raw: *mut bindings::net_device) -> Result<Self> {
        let raw = NonNull::new(raw).ok_or(ENODEV)?;
        // SAFETY: Live by the caller's promise.
        unsafe { sib_bindings::sib_helper_netdev_get(raw.as_ptr()) };
        // INVARIANT: Just counted.
        Ok(Self { raw })
    }

    /// Finds the device `name` in the network namespace of the process that calls.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is none, or if the process has no namespace any more.
    pub fn by_name(name: &[u8]) -> Result<Self> {
        let text = terminated(name)?;
        // SAFETY: The text is terminated.
        let raw = unsafe { sib_bindings::sib_helper_netdev_by_name(text.as_ptr().cast()) };
        // INVARIANT: The C side has counted a reference.
        NonNull::new(raw).map(|raw| Self { raw }).ok_or(ENODEV)
    }

    /// Finds the device `name` in the initial network namespace.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is none.
    pub fn by_initial_name(name: &[u8]) -> Result<Self> {
        let text = terminated(name)?;
        // SAFETY: The text is terminated.
        let raw = unsafe { sib_bindings::sib_helper_netdev_initial(text.as_ptr().cast()) };
        // INVARIANT: The C side has counted a reference.
        NonNull::new(raw).map(|raw| Self { raw }).ok_or(ENODEV)
    }

    /// The device for C code.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut bindings::net_device {
        self.raw.as_ptr()
    }

    /// The name, as of now.
    pub fn name(&self) -> DeviceName {
        let mut bytes = [0u8; NAME_SIZE];
        // SAFETY: Live by the invariant; the C side writes `NAME_SIZE` bytes at most.
        let len = unsafe {
            sib_bindings::sib_helper_netdev_name(
                self.as_ptr(),
                bytes.as_mut_ptr().cast(),
                NAME_SIZE,
            )
        };
        DeviceName { bytes, len }
    }

    /// The index of the interface, unique in its namespace.
    pub fn ifindex(&self) -> u32 {
        // SAFETY: Live by the invariant.
        unsafe { sib_bindings::sib_helper_netdev_ifindex(self.as_ptr()) }.unsigned_abs()
    }

    /// The largest network-layer packet in bytes.
    pub fn mtu(&self) -> u32 {
        // SAFETY: Live by the invariant.
        unsafe { sib_bindings::sib_helper_netdev_mtu(self.as_ptr()) }
    }

    /// Whether the device cuts batches into UDP datagrams itself, or hands them on whole. If not, the kernel does that
    /// before, and copies all bytes.
    pub fn segments_datagrams(&self) -> bool {
        // SAFETY: Live by the invariant.
        unsafe { sib_bindings::sib_helper_netdev_segments(self.as_ptr()) }
    }

    /// Whether it is registered: once it is not, [`DeviceEvent::Unregister`](super::DeviceEvent::Unregister) is about to
    /// be told, or has been.
    pub fn is_registered(&self) -> bool {
        // SAFETY: Live by the invariant.
        unsafe { sib_bindings::sib_helper_netdev_registered(self.as_ptr()) }
    }

    /// Whether the device is up and has a carrier.
    pub fn is_up(&self) -> bool {
        // SAFETY: Live by the invariant.
        unsafe { sib_bindings::sib_helper_netdev_running(self.as_ptr()) }
    }

    /// Whether this is a loopback device.
    pub fn is_loopback(&self) -> bool {
        // SAFETY: Live by the invariant.
        unsafe { sib_bindings::sib_helper_netdev_loopback(self.as_ptr()) }
    }

    /// Whether what leaves by this device for `address` comes back to this host at once.
    pub fn is_local(&self, address: SocketAddr) -> bool {
        // SAFETY: Live by the invariant; the address is only read.
        unsafe { sib_bindings::sib_helper_is_local(self.as_ptr(), &addr::to_c(address)) }
    }

    /// The hardware address, if it has the six bytes of an EUI-48 and is not zero.
    pub fn mac(&self) -> Option<[u8; 6]> {
        let mut bytes = [0u8; MAX_ADDRESS];
        // SAFETY: Live by the invariant; the C side writes `MAX_ADDRESS` bytes at most.
        let len = unsafe {
            sib_bindings::sib_helper_netdev_address(self.as_ptr(), bytes.as_mut_ptr(), MAX_ADDRESS)
        };
        let mac = *bytes.first_chunk::<6>()?;
        (len == mac.len() && mac != [0; 6]).then_some(mac)
    }

    /// Whether both are the same device.
    pub fn is_same(&self, other: &NetDevice) -> bool {
        self.raw == other.raw
    }

    /// A number that is equal for devices of one network namespace, and different for those of two that
    /// exist at the same time.
    pub fn namespace_id(&self) -> usize {
        // SAFETY: Live by the invariant.
        unsafe { sib_bindings::sib_helper_netdev_net(self.as_ptr()) }.addr()
    }
}

impl Clone for NetDevice {
    fn clone(&self) -> Self {
        // SAFETY: Live by the invariant.
        unsafe { sib_bindings::sib_helper_netdev_get(self.as_ptr()) };
        // INVARIANT: Just counted.
        Self { raw: self.raw }
    }
}

impl Drop for NetDevice {
    fn drop(&mut self) {
        // SAFETY: The reference is ours by the invariant.
        unsafe { sib_bindings::sib_helper_netdev_put(self.as_ptr()) }
    }
}

/// The name of a device at some time.
#[derive(Clone, Copy)]
pub struct DeviceName {
    bytes: [u8; NAME_SIZE],
    len: usize,
}

impl DeviceName {
    /// The bytes of the name, without a terminator.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

impl kernel::fmt::Display for DeviceName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for chunk in self.as_bytes().utf8_chunks() {
            f.write_str(chunk.valid())?;
        }
        Ok(())
    }
}
