package workload

import (
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Values from linux/userfaultfd.h.
const (
	uffdAPI             = 0xaa
	uffdioAPI           = 0xc018aa3f
	uffdioRegister      = 0xc020aa00
	uffdRegisterMissing = 1
	uffdMsgLen          = 32
)

// Block keeps others from writing to a file until in ends: it holds the inode's lock with
// a write whose data never arrives. Block writes "blocked" when it has the lock. The
// process must exit afterwards, to end that write.
func Block(name string, in io.Reader, out io.Writer) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	faults, _, e := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if e != 0 {
		return os.NewSyscallError("userfaultfd", e)
	}
	api := [3]uint64{uffdAPI}
	_, _, e = unix.Syscall(unix.SYS_IOCTL, faults, uffdioAPI, uintptr(unsafe.Pointer(&api)))
	if e != 0 {
		return os.NewSyscallError("UFFDIO_API", e)
	}
	register := [4]uint64{uint64(uintptr(unsafe.Pointer(&page[0]))), uint64(len(page)), uffdRegisterMissing}
	_, _, e = unix.Syscall(unix.SYS_IOCTL, faults, uffdioRegister, uintptr(unsafe.Pointer(&register)))
	if e != 0 {
		return os.NewSyscallError("UFFDIO_REGISTER", e)
	}
	go func() { _, _ = unix.Pwrite(int(f.Fd()), page, 0) }()
	var fault [uffdMsgLen]byte
	if _, err := unix.Read(int(faults), fault[:]); err != nil { // the write waits for its data
		return os.NewSyscallError("read", err)
	}
	fmt.Fprintln(out, "blocked")
	_, err = io.Copy(io.Discard, in)
	return err
}
