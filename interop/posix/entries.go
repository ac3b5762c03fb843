package posix

import (
	"encoding/binary"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A dirEntry is an entry returned by getdents.
type dirEntry struct {
	name string
	ino  uint64
	kind byte
	next int64 // the position after it in the listing
}

// readEntries reads an open directory's next entries with one getdents call and a buffer
// with size bytes; it returns nothing at the end.
func (p *probe) readEntries(fd, size int) []dirEntry {
	b := make([]byte, size)
	n, err := unix.Getdents(fd, b)
	p.mustSucceed(err)
	var list []dirEntry
	for b = b[:n]; len(b) > 0; {
		length := binary.NativeEndian.Uint16(b[16:])
		name, _, _ := strings.Cut(string(b[19:length]), "\x00")
		list = append(list, dirEntry{
			name, binary.NativeEndian.Uint64(b), b[18],
			int64(binary.NativeEndian.Uint64(b[8:])),
		})
		b = b[length:]
	}
	return list
}

// readAllEntries reads an open directory's remaining entries.
func (p *probe) readAllEntries(fd int) []dirEntry {
	var list []dirEntry
	for {
		some := p.readEntries(fd, 4096)
		if len(some) == 0 {
			return list
		}
		list = append(list, some...)
	}
}

// entryNames returns the entries' names, without "." and "..".
func entryNames(list []dirEntry) []string {
	var names []string
	for _, e := range list {
		if e.name != "." && e.name != ".." {
			names = append(names, e.name)
		}
	}
	slices.Sort(names)
	return names
}
