package rpctls

import (
	"io/fs"
	"syscall"
)

// A fileID tells files of the same name apart.
type fileID struct{ dev, inode uint64 }

func idOf(info fs.FileInfo) fileID {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}
	}
	return fileID{uint64(s.Dev), s.Ino}
}
