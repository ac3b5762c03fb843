package iwarp

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

var pageSize = uintptr(os.Getpagesize())

// makeReadable waits for mem's pages, and reports whether the processor can read them without
// blocking. The kernel maps the pages into this process's page table, where neither a request to
// drop caches nor one reclaim pass removes them. A kernel before Linux 5.14 only reports which
// pages are in memory, and only to root for all users' files. Pages that are not resident must be
// read by other means.
func makeReadable(mem []byte) bool {
	start, n := pagesOf(mem)
	for {
		_, _, errno := unix.Syscall(unix.SYS_MADVISE, start, n, unix.MADV_POPULATE_READ)
		switch errno {
		case 0:
			return true
		case unix.EINTR:
		case unix.EINVAL: // mincore(2) reports all pages in other users' files as resident
			return os.Geteuid() == 0 && isResident(start, n)
		default: // EFAULT: beyond the file's end; EHWPOISON
			return false
		}
	}
}

// pagesOf returns the address and the length, in bytes, of the pages that
// contain mem.
func pagesOf(mem []byte) (start, n uintptr) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	start = at &^ (pageSize - 1)
	return start, (at + uintptr(len(mem)) - start + pageSize - 1) &^ (pageSize - 1)
}

// isResident reports whether pages are in memory. It queries up to 64 at a
// time.
func isResident(start, n uintptr) bool {
	var pages [64]byte
	for n > 0 {
		k := min(n, uintptr(len(pages))*pageSize)
		if _, _, errno := unix.Syscall(unix.SYS_MINCORE, start, k, uintptr(unsafe.Pointer(&pages[0]))); errno != 0 {
			return false
		}
		for _, p := range pages[:k/pageSize] {
			if p&1 == 0 {
				return false
			}
		}
		start, n = start+k, n-k
	}
	return true
}
