package rpctls

import (
	"io/fs"
	"syscall"
)

// A fileID distinguishes files with the same name.
type fileID struct{ dev, inode uint64 }

func fileIDOf(info fs.FileInfo) fileID {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}
	}
	return fileID{uint64(s.Dev), s.Ino}
}
