package billy

import (
	"context"
	"os"

	gobilly "github.com/go-git/go-billy/v5"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// Options say what a billy file system can do beside its own interface. The
// zero value is right for one of the host.
type Options struct {
	// Change changes attributes; nil means the file system itself, if it is
	// one.
	Change gobilly.Change

	// Special makes hard links and special files; nil means Change, if it is
	// one.
	Special Special

	// Info returns what an os.FileInfo knows beside its interface; false if
	// nothing. Nil means SysInfo.
	Info func(os.FileInfo) (Info, bool)

	// StatFS returns the space of the file system; nil means that there is no
	// end of it.
	StatFS func(context.Context) (vfs.FSStat, error)

	// Handles makes the octets of handles; nil means random ones that end
	// with the FS.
	Handles Handles

	// MaxObjects is how many objects have handles at once, at some 300
	// octets each; 0 means 262144; below 1024 is 1024.
	MaxObjects int

	// MaxFileSize is the longest file, in octets; 0 means 2^63-1. A file
	// system in memory that fills holes needs a bound.
	MaxFileSize int64

	// Volatile tells that a file without a Sync method is as stable as it will
	// ever be once it is closed: it is in memory, or in a store that keeps what
	// was closed. Then WRITE answers FILE_SYNC, and COMMIT does nothing. Else a
	// file system without Sync is refused, unless it is read-only.
	Volatile bool

	// Concurrent tells that several goroutines may read at once.
	Concurrent bool
}

// A Special makes what billy.Change does not know. It is the rest of go-nfs's
// UnixChange.
type Special interface {
	Mknod(path string, mode, major, minor uint32) error
	Mkfifo(path string, mode uint32) error
	Socket(path string) error
	Link(path, link string) error
}

// An Info is what an os.FileInfo may know beside its interface.
type Info struct {
	FileID   uint64 // 0: it has none
	Nlink    uint32
	UID, GID uint32
	Rdev     vfs.Dev
	Used     uint64 // octets of storage

	// Times tells whether Atime and Ctime are known.
	Times        bool
	Atime, Ctime vfs.Time
}

// A Handles makes the octets of handles, for who has them already.
type Handles interface {
	// Handle returns at most vfs.MaxHandle octets for the object at path,
	// the same until Forget.
	Handle(path []string) ([]byte, error)

	// Path returns the path of a handle that the FS does not know: of an
	// earlier process, or forgotten.
	Path(handle []byte) ([]string, error)

	// Forget tells that a handle's object is not any more where it was.
	Forget(handle []byte)
}
