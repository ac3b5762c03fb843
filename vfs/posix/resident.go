//go:build linux

package posix

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A residency says whether mincore(2) tells this process which of a file's pages are in memory, and
// the file's mode and owners at that time.
type residency struct {
	known    bool
	canQuery bool
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
	r.canQuery = o.residency.canQuery
	if o.residency != r {
		r.canQuery = ownsOrWrites(o.fd)
		o.residency = r
	}
	return r.canQuery
}

// ownsOrWrites reports whether the process counts as the owner of fd's file, or may write to it.
// O_NOATIME needs the same right as mincore.
func ownsOrWrites(place int) bool {
	fd, err := retryEINTR(func() (int, error) {
		return unix.Open(magicPath(place), unix.O_RDONLY|unix.O_NOATIME|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	})
	if err == nil {
		closeFD(fd)
		return true
	}
	return checkAccess(place, unix.W_OK) == nil
}

var pageSize = os.Getpagesize()

// isResident reports whether mem is completely in memory.
func isResident(mem []byte) bool {
	var vector [maxMapped]byte
	pages := pagesOf(mem, &vector)
	for _, p := range pages {
		if p&1 == 0 {
			return false
		}
	}
	return pages != nil
}

// residentRun returns the start and the end of the resident pages around an offset in mem, which
// begins with a page. If that page is not in memory, the end is 0.
func residentRun(mem []byte, at int) (from, to int) {
	var vector [maxMapped]byte
	pages := pagesOf(mem, &vector)
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

// pagesOf returns a byte for each page of mem, whose lowest bit says that the page is in memory. It
// returns nil if mincore(2) fails, or vector is too short.
func pagesOf(mem []byte, vector *[maxMapped]byte) []byte {
	start := uintptr(unsafe.Pointer(&mem[0])) &^ uintptr(pageSize-1)
	n := uintptr(unsafe.Pointer(&mem[0])) + uintptr(len(mem)) - start
	count := (n + uintptr(pageSize) - 1) / uintptr(pageSize)
	if count > uintptr(len(vector)) {
		return nil
	}
	if _, _, e := unix.Syscall(unix.SYS_MINCORE, start, n, uintptr(unsafe.Pointer(&vector[0]))); e != 0 {
		return nil
	}
	return vector[:count]
}
