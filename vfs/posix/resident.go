//go:build linux

package posix

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A residency is whether the kernel tells this process which pages of a file
// are in memory, and the file's mode and owners at the time of that answer.
type residency struct {
	known    bool
	told     bool
	mode     uint16
	uid, gid uint32
}

// tellsResident reports whether mincore(2) is truthful for o. For a file that
// the process neither owns nor may write, without CAP_FOWNER, mincore reports
// every page as resident.
func (f *FS) tellsResident(o *object, st *unix.Statx_t) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := residency{known: true, mode: st.Mode, uid: st.Uid, gid: st.Gid}
	r.told = o.residency.told
	if o.residency != r {
		r.told = ownsOrWrites(o.fd)
		o.residency = r
	}
	return r.told
}

// ownsOrWrites reports whether the process counts as owner of the file behind
// an O_PATH descriptor, or may write to it. O_NOATIME needs the same right as
// mincore.
func ownsOrWrites(place int) bool {
	fd, err := retry(func() (int, error) {
		return unix.Open(magicPath(place), unix.O_RDONLY|unix.O_NOATIME|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	})
	if err == nil {
		closeFD(fd)
		return true
	}
	return accessible(place, unix.W_OK) == nil
}

var pageSize = os.Getpagesize()

// resident reports whether all of mem is in memory, so that reading it waits
// for no disk and fills no hole.
func resident(mem []byte) bool {
	var pages [maxMapped]byte
	start := uintptr(unsafe.Pointer(&mem[0])) &^ uintptr(pageSize-1)
	n := uintptr(unsafe.Pointer(&mem[0])) + uintptr(len(mem)) - start
	count := (n + uintptr(pageSize) - 1) / uintptr(pageSize)
	if count > uintptr(len(pages)) {
		return false
	}
	if _, _, e := unix.Syscall(unix.SYS_MINCORE, start, n, uintptr(unsafe.Pointer(&pages[0]))); e != 0 {
		return false
	}
	for _, p := range pages[:count] {
		if p&1 == 0 {
			return false
		}
	}
	return true
}
