package vfs

import (
	"context"
	"errors"
	"strings"
	"syscall"

	"github.com/nfsrdma/nfsrdma/buf"
)

// MaxHandle is the length in octets of the longest Handle. NFSv3 gives 64
// octets to a file handle (RFC 1813, Section 2.5); the rest is for the
// export's identity and a seal.
const MaxHandle = 44

// A Handle names a file system object for as long as it exists, whatever its
// names are and however often the server is restarted. Handles are
// comparable: equal handles name the same object.
type Handle struct {
	n uint8
	b [MaxHandle]byte
}

// NewHandle makes a Handle of its octets; false if there are more than
// MaxHandle.
func NewHandle(b []byte) (h Handle, ok bool) {
	if len(b) > MaxHandle {
		return Handle{}, false
	}
	h.n = uint8(copy(h.b[:], b))
	return h, true
}

// AppendTo appends the handle's octets to b.
func (h *Handle) AppendTo(b []byte) []byte { return append(b, h.b[:h.n]...) }

// Len returns the number of octets.
func (h *Handle) Len() int { return int(h.n) }

// A Cred is in whose name an operation is done.
type Cred struct {
	UID, GID uint32
	Groups   []uint32 // beside GID
}

// Type is the type of an object.
type Type uint8

// The object types, with the numbers of RFC 1813's ftype3.
const (
	TypeReg Type = iota + 1
	TypeDir
	TypeBlk
	TypeChr
	TypeLnk
	TypeSock
	TypeFIFO
)

// A Time is a point in time since 1970 (UTC).
type Time struct {
	Sec  int64
	Nsec uint32
}

// A Dev is the number of a device.
type Dev struct{ Major, Minor uint32 }

// Attr are the attributes of an object.
type Attr struct {
	Type  Type
	Mode  uint32 // the low twelve bits of st_mode
	Nlink uint32
	UID   uint32
	GID   uint32
	Size  uint64 // octets
	Used  uint64 // octets of storage
	Rdev  Dev
	FSID  uint64
	// FileID is unique within FSID.
	FileID              uint64
	Atime, Mtime, Ctime Time
}

// A MaybeAttr is attributes that could perhaps not be had.
type MaybeAttr struct {
	OK bool
	Attr
}

// A PreAttr is what a client needs of the attributes before a change, to tell
// whether its cache was current (RFC 1813, wcc_attr).
type PreAttr struct {
	OK           bool
	Size         uint64
	Mtime, Ctime Time
}

// WCC is the weak cache consistency data of one object (RFC 1813, Section
// 2.6).
type WCC struct {
	Before PreAttr
	After  MaybeAttr
}

// SetTime says what becomes of a time stamp.
type SetTime uint8

// What becomes of a time stamp, with the numbers of RFC 1813's time_how.
const (
	DontChange SetTime = iota
	SetToServer
	SetToClient
)

// A SetAttr is a change of attributes. A nil or DontChange field stays.
type SetAttr struct {
	Mode, UID, GID *uint32
	Size           *uint64
	AtimeHow       SetTime
	MtimeHow       SetTime
	Atime, Mtime   Time // where SetToClient
}

// Access rights as RFC 1813, Section 3.3.4, numbers them.
const (
	AccessRead uint32 = 1 << iota
	AccessLookup
	AccessModify
	AccessExtend
	AccessDelete
	AccessExecute
)

// Stable is how far a write must have come before it is answered (RFC 1813,
// stable_how).
type Stable uint32

// The values of Stable.
const (
	Unstable Stable = iota
	DataSync
	FileSync
)

// CreateMode is how Create treats an existing file (RFC 1813, createmode3).
type CreateMode uint32

// The values of CreateMode.
const (
	Unchecked CreateMode = iota
	Guarded
	Exclusive
)

// A CreateHow says how Create makes a file.
type CreateHow struct {
	Mode     CreateMode
	Attr     SetAttr // Unchecked and Guarded
	Verifier uint64  // Exclusive: a retry with the same verifier finds its own file
}

// An Entry is one entry of a directory.
type Entry struct {
	FileID uint64
	Name   []byte // valid during the call
	Cookie uint64 // where to go on behind this entry

	// Handle and Attr are there where they were asked for and could be
	// had.
	HasHandle bool
	Handle    Handle
	Attr      MaybeAttr
}

// A Made is the result of making an object.
type Made struct {
	Handle Handle
	Attr   MaybeAttr
	Dir    WCC
}

// An FSStat is the space of a file system, in octets and in files. Avail is
// what the caller may use.
type FSStat struct {
	TotalBytes, FreeBytes, AvailBytes uint64
	TotalFiles, FreeFiles, AvailFiles uint64
}

// A PathConf is the limits of names (RFC 1813, Section 3.3.20).
type PathConf struct {
	LinkMax, NameMax uint32
	NoTrunc          bool // long names are refused, not cut
	ChownRestricted  bool // only the superuser changes owners
	CaseInsensitive  bool
	CasePreserving   bool
}

// An FS is a file system that is served. All methods may be called by many
// goroutines at once. Where a method returns WCC or MaybeAttr, they are as
// good as can be had beside an error too. Names are octets other than NUL
// and '/', not necessarily text.
//
// Changes other than Write are on stable storage when a method returns.
type FS interface {
	// Root returns the handle of the exported directory.
	Root() Handle

	GetAttr(ctx context.Context, c *Cred, h Handle) (Attr, error)

	// SetAttr changes attributes. With guard, only where the object's
	// ctime is *guard; else ErrNotSync.
	SetAttr(ctx context.Context, c *Cred, h Handle, s SetAttr, guard *Time) (WCC, error)

	// Lookup finds name in dir; "." and ".." are names too, the latter not
	// leading out of the export.
	Lookup(ctx context.Context, c *Cred, dir Handle, name string) (h Handle, obj, dirAttr MaybeAttr, err error)

	// Access returns which of the rights in mask c has.
	Access(ctx context.Context, c *Cred, h Handle, mask uint32) (uint32, MaybeAttr, error)

	ReadLink(ctx context.Context, c *Cred, h Handle) (string, MaybeAttr, error)

	// Read fills p from offset off on; n < len(p) without an error only
	// at the end of the file. eof tells that the octet behind the last
	// one read is past the end.
	Read(ctx context.Context, c *Cred, h Handle, p []byte, off uint64) (n int, eof bool, a MaybeAttr, err error)

	// Write writes p at offset off, at least as stable as asked, and
	// returns how stable. With an error, n octets were written all the
	// same: if n is not 0, RFC 1813 wants an answer without the error.
	Write(ctx context.Context, c *Cred, h Handle, p []byte, off uint64, how Stable) (n int, done Stable, w WCC, err error)

	// Commit puts what was written to the range on stable storage; count
	// 0 means to the end.
	Commit(ctx context.Context, c *Cred, h Handle, off uint64, count uint32) (WCC, error)

	// WriteVerifier changes whenever unstable writes may have been lost:
	// at each start of the server, and after a failed Commit. The answer
	// to a Write carries what it was before the call, to a Commit after.
	WriteVerifier() uint64

	Create(ctx context.Context, c *Cred, dir Handle, name string, how CreateHow) (Made, error)
	Mkdir(ctx context.Context, c *Cred, dir Handle, name string, s SetAttr) (Made, error)
	Symlink(ctx context.Context, c *Cred, dir Handle, name, target string, s SetAttr) (Made, error)
	// Mknod makes a TypeChr, TypeBlk, TypeSock or TypeFIFO.
	Mknod(ctx context.Context, c *Cred, dir Handle, name string, t Type, d Dev, s SetAttr) (Made, error)

	Remove(ctx context.Context, c *Cred, dir Handle, name string) (WCC, error)
	Rmdir(ctx context.Context, c *Cred, dir Handle, name string) (WCC, error)
	Rename(ctx context.Context, c *Cred, from Handle, fromName string, to Handle, toName string) (fromDir, toDir WCC, err error)
	Link(ctx context.Context, c *Cred, h, dir Handle, name string) (obj MaybeAttr, dirWCC WCC, err error)

	// ReadDir calls fn for each entry behind cookie (0: from the start),
	// "." and ".." included, until fn returns false. verifier is 0 with
	// cookie 0, else what ReadDir returned with the cookie; ErrBadCookie
	// tells that the cookie means nothing any more. plus asks for handles
	// and attributes.
	ReadDir(ctx context.Context, c *Cred, dir Handle, cookie, verifier uint64, plus bool, fn func(*Entry) bool) (dirAttr MaybeAttr, newVerifier uint64, eof bool, err error)

	StatFS(ctx context.Context, c *Cred, h Handle) (FSStat, MaybeAttr, error)
	PathConf(ctx context.Context, c *Cred, h Handle) (PathConf, MaybeAttr, error)

	// Close gives all resources back, but for what a Mapper has lent, which
	// goes when it is given back. No method may be under way.
	Close() error
}

// A Mapper is an FS that can lend the data of files where they lie.
type Mapper interface {
	// Map is Read of up to n octets without a copy. The buffer's memory is a
	// mapping: it shows what is written to the file while it is lent, and
	// what lies behind the end of a file that is cut short meanwhile, or
	// cannot be read from its medium, is not there any more, so that only
	// the kernel may read it, and the buffer's owner is a buf.Rereader; up to
	// the end of the last page there are zeros. There are attributes with a
	// buffer. Nil, without an error, tells to use Read: the data would have to
	// be waited for, or are too few to be worth it.
	Map(ctx context.Context, c *Cred, h Handle, off uint64, n int) (b *buf.Buf, eof bool, a MaybeAttr, err error)
}

// A Container is an FS of which objects can be moved out by others while clients
// still have handles of them.
type Container interface {
	// Within tells whether h lies below the root: whether a path leads
	// there through directories that c may search. ESTALE: none does.
	Within(ctx context.Context, c *Cred, h Handle) error
}

// An Identifier is an FS whose objects can be told from each other by whatever
// handle, name or export they are reached.
type Identifier interface {
	// AppendKey appends octets that name h's object, and no other object that
	// there is, in all Identifiers of the process: two that serve the same
	// files of the host give an object the same key. It makes no system call
	// for an object in use. EOPNOTSUPP: the file system cannot tell.
	AppendKey(b []byte, h Handle) ([]byte, error)
}

// A Leaser is an FS that hears of changes that others are about to make to the
// data of a file, behind its back.
type Leaser interface {
	// Lease asks that broken be called, at most once, when somebody else is
	// about to open the file for writing, or to cut it short. He waits until
	// release is called, but not for ever: with a host, /proc/sys/fs/lease-break-time.
	// broken has a goroutine of its own and may wait; it may be called before
	// Lease returns, and still be under way, or yet to come, when release
	// does.
	//
	// EAGAIN: somebody has the file open for writing. EMFILE: there is no room
	// for a lease. EOPNOTSUPP: none is to be had of this file. EACCES: c may
	// not read it.
	//
	// The FS itself writes to the file only after release: before, it is
	// EAGAIN, and breaks the lease. A lease tells nothing of changes of
	// attributes and names. release may be called more than once.
	Lease(ctx context.Context, c *Cred, h Handle, broken func()) (release func(), err error)
}

// Errors for which the host has no number.
var (
	ErrBadHandle = errors.New("vfs: not a handle of this file system")
	ErrNotSync   = errors.New("vfs: attributes changed since the guard was read")
	ErrBadCookie = errors.New("vfs: directory cookie is not valid any more")
	ErrBadType   = errors.New("vfs: type cannot be made")
)

// CheckName refuses what cannot be one component of a path, with the errors of
// RFC 1813, Section 3.2: EACCES for the empty name and for one with "/" or NUL in
// it, ENAMETOOLONG for one of more than limit octets.
func CheckName(name string, limit int) error {
	switch {
	case name == "" || strings.ContainsAny(name, "/\x00"):
		return syscall.EACCES
	case len(name) > limit:
		return syscall.ENAMETOOLONG
	}
	return nil
}

// IsDots tells whether a name is "." or "..", which each directory has.
func IsDots(name string) bool { return name == "." || name == ".." }
