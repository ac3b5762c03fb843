package billy

import (
	"context"
	"math"
	"os"
	"time"

	gobilly "github.com/go-git/go-billy/v5"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// Options describe a billy file system's features beyond its own interface. The zero value suits a
// host file system.
type Options struct {
	// Change changes attributes; nil means the file system itself, if it
	// implements billy.Change.
	Change gobilly.Change

	// Special creates hard links and special files; nil means Change, if it implements Special.
	Special Special

	// Info returns an os.FileInfo's data beyond its interface, or false if it has none. Nil
	// means SysInfo.
	Info func(os.FileInfo) (Info, bool)

	// StatFS returns the file system's space; nil means unlimited.
	StatFS func(context.Context) (vfs.FSStat, error)

	// Handles creates handles; nil means random ones that are valid only for this FS.
	Handles Handles

	// Errors converts an error that has no errno; nil means that such an error
	// stays as it is.
	Errors func(error) error

	// MaxObjects is the maximum number of objects with handles, at some 300 bytes each; 0 means
	// 262144; less than 1024 means 1024.
	MaxObjects int

	// MaxFileSize is the maximum file size, in bytes; 0 means 2^63-1. A file system in memory
	// that stores holes as zeros needs a bound.
	MaxFileSize int64

	// Volatile says that a closed file without a Sync method will not become more stable: it is
	// in memory, or in a store that keeps closed files. WRITE then replies FILE_SYNC, and
	// COMMIT does nothing. Without Volatile a file system without Sync is rejected, unless it
	// is read-only.
	Volatile bool

	// Concurrent permits concurrent reads.
	Concurrent bool
}

// A Special creates objects that billy.Change does not support. It is the rest of go-nfs's
// UnixChange.
type Special interface {
	Mknod(path string, mode, major, minor uint32) error
	Mkfifo(path string, mode uint32) error
	Socket(path string) error
	Link(path, link string) error
}

// An Info is the data that an os.FileInfo may have beyond its interface.
type Info struct {
	FileID   uint64 // 0: none
	Nlink    uint32
	UID, GID uint32
	Rdev     vfs.Dev
	Used     uint64 // bytes of storage

	// Times reports whether Atime and Ctime are known.
	Times        bool
	Atime, Ctime vfs.Time
}

// A Handles creates handles, for a program that already has its own.
type Handles interface {
	// Handle returns at most vfs.MaxHandle bytes for the object at path, the
	// same bytes until Forget.
	Handle(path []string) ([]byte, error)

	// Path returns the path of a handle that the FS does not know: of an
	// earlier process, or forgotten.
	Path(handle []byte) ([]string, error)

	// Forget reports that a handle's object is no longer at its path.
	Forget(handle []byte)
}

const (
	// defaultObjects is the default bound on objects with handles: some 80 MiB,
	// and more files than most clients' working sets.
	defaultObjects = 1 << 18

	// minObjects is how many objects concurrent calls may need.
	minObjects = 1 << 10

	// maxName and maxPath are the longest name and path in bytes: NAME_MAX and
	// PATH_MAX of hosts. Longer paths would make every call on a deep directory
	// slow.
	maxName = 255
	maxPath = 4095

	// maxPlaces is how many names of one object are remembered.
	maxPlaces = 8

	maxFileSize = math.MaxInt64

	// maxListings bounds the directories whose names are cached while clients
	// list them, and listingAge is for how long. A client that continues a
	// listing sees changes late, as POSIX permits.
	maxListings = 16
	listingAge  = 5 * time.Second
)
