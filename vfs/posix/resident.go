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

// resident reports whether all of mem is in memory.
func resident(mem []byte) bool {
	var room [maxMapped]byte
	pages := pagesOf(mem, &room)
	for _, p := range pages {
		if p&1 == 0 {
			return false
		}
	}
	return pages != nil
}

// residentRun returns the start and the end of the pages in memory around an
// offset of mem, which begins with a page. If that page is not in memory, the
// end is 0.
func residentRun(mem []byte, at int) (from, to int) {
	var room [maxMapped]byte
	pages := pagesOf(mem, &room)
	lo, hi := at/pageSize, at/pageSize
	for hi < len(pages) && pages[hi]&1 != 0 {
		hi++
	}
	if hi == lo || pages == nil {
		return 0, 0
	}
	for lo > 0 && pages[lo-1]&1 != 0 {
		lo--
	}
	return lo * pageSize, hi * pageSize
}

// pagesOf returns a byte for each page of mem, whose lowest bit says that the
// page is in memory. It returns nil if the kernel does not tell, or room is too
// short.
func pagesOf(mem []byte, room *[maxMapped]byte) []byte {
	start := uintptr(unsafe.Pointer(&mem[0])) &^ uintptr(pageSize-1)
	n := uintptr(unsafe.Pointer(&mem[0])) + uintptr(len(mem)) - start
	count := (n + uintptr(pageSize) - 1) / uintptr(pageSize)
	if count > uintptr(len(room)) {
		return nil
	}
	if _, _, e := unix.Syscall(unix.SYS_MINCORE, start, n, uintptr(unsafe.Pointer(&room[0]))); e != 0 {
		return nil
	}
	return room[:count]
}
