//go:build linux

package posix

import (
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// statMask is statx's request mask. The birth time distinguishes a file from an earlier one with
// its inode number, and the mount ID from a mount on top.
const statMask = unix.STATX_BASIC_STATS | unix.STATX_BTIME | unix.STATX_MNT_ID

var empty [1]byte // the empty path

func errnoErr(e unix.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

// retryEINTR calls fn until it is not interrupted. Go restarts system calls, but
// some file systems still return EINTR.
func retryEINTR(fn func() (int, error)) (int, error) {
	for {
		n, err := fn()
		if err != unix.EINTR {
			return n, err
		}
	}
}

func statFD(fd int, st *unix.Statx_t) error {
	_, _, e := unix.Syscall6(unix.SYS_STATX, uintptr(fd), uintptr(unsafe.Pointer(&empty[0])),
		unix.AT_EMPTY_PATH, statMask, uintptr(unsafe.Pointer(st)), 0)
	return errnoErr(e)
}

// statName reads the attributes behind a name in dir. nameZ is the name with its NUL. It neither
// follows a symbolic link nor triggers an automount.
func statName(dir int, nameZ []byte, st *unix.Statx_t) error {
	_, _, e := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(&nameZ[0])),
		unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, statMask, uintptr(unsafe.Pointer(st)), 0)
	return errnoErr(e)
}

// setTimes sets the times through fd, which is no O_PATH descriptor.
func setTimes(fd int, times *[2]unix.Timespec) error {
	_, _, e := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(times)), 0, 0, 0)
	return errnoErr(e)
}

// openPath opens name in dir with O_PATH, without following a link.
func openPath(dir int, name string) (int, error) {
	return retryEINTR(func() (int, error) {
		return unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
}

// openPathZ is openPath for a name with its NUL.
func openPathZ(dir int, nameZ []byte) (int, error) {
	for {
		fd, _, e := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(&nameZ[0])),
			unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0, 0, 0)
		if e != unix.EINTR {
			return int(fd), errnoErr(e)
		}
	}
}

// openBeneath opens a path below dir with O_PATH. It never leaves dir on the way, even if
// directories are renamed concurrently. No directory may be a symbolic link or on another mount.
func openBeneath(dir int, path string) (int, error) {
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	}
	return retryEINTR(func() (int, error) { return unix.Openat2(dir, path, &how) })
}

// A kernelHandle is name_to_handle_at(2)'s struct file_handle, with as many bytes as a vfs.Handle
// can hold.
type kernelHandle struct {
	n   uint32
	typ int32
	b   [kernelHandleMax]byte
}

// encode gets fd's handle from the kernel. It returns EOVERFLOW if the handle is too long.
func (k *kernelHandle) encode(fd int) error {
	k.n = kernelHandleMax
	var mount int32
	_, _, e := unix.Syscall6(unix.SYS_NAME_TO_HANDLE_AT, uintptr(fd), uintptr(unsafe.Pointer(&empty[0])),
		uintptr(unsafe.Pointer(k)), uintptr(unsafe.Pointer(&mount)), unix.AT_EMPTY_PATH, 0)
	return errnoErr(e)
}

// openAt opens the object with O_PATH, in the mount of the descriptor mount.
func (k *kernelHandle) openAt(mount int) (int, error) {
	fd, _, e := unix.Syscall(unix.SYS_OPEN_BY_HANDLE_AT, uintptr(mount), uintptr(unsafe.Pointer(k)),
		unix.O_PATH|unix.O_CLOEXEC)
	return int(fd), errnoErr(e)
}

// magicName is fd's name in /proc/self/fd. Opening an O_PATH descriptor by that name makes the
// kernel check permissions.
func magicName(fd int) string { return strconv.Itoa(fd) }

func magicPath(fd int) string { return "/proc/self/fd/" + magicName(fd) }

func closeFD(fd int) { _ = unix.Close(fd) }
