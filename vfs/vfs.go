package vfs

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"syscall"

	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// MaxHandle is a Handle's maximum length in bytes. NFSv3 gives 64 bytes to a file handle (RFC 1813,
// Section 2.5); the rest is for the export's identity and a seal.
const MaxHandle = 44

// A Handle identifies a file system object for as long as the object exists,
// across renames and restarts of the server. Handles are comparable: equal
// handles identify the same object.
type Handle struct {
	n uint8
	b [MaxHandle]byte
}

// NewHandle returns a Handle with the bytes b. It returns false if b is longer than MaxHandle.
func NewHandle(b []byte) (h Handle, ok bool) {
	if len(b) > MaxHandle {
		return Handle{}, false
	}
	h.n = uint8(copy(h.b[:], b))
	return h, true
}

// AppendTo appends the handle's bytes to b.
func (h *Handle) AppendTo(b []byte) []byte { return append(b, h.b[:h.n]...) }

// Len returns the number of bytes.
func (h *Handle) Len() int { return int(h.n) }

// A Cred is the identity of an operation's caller.
type Cred struct {
	UID, GID uint32
	Groups   []uint32 // in addition to GID
}

// Type is an object's type.
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

// Before reports whether t is before u.
func (t Time) Before(u Time) bool { return t.Sec < u.Sec || t.Sec == u.Sec && t.Nsec < u.Nsec }

// A Dev is a device number.
type Dev struct{ Major, Minor uint32 }

// Attr are an object's attributes.
type Attr struct {
	Type      Type
	HasChange bool
	HasBirth  bool
	Mode      uint32 // the low twelve bits of st_mode
	Nlink     uint32
	UID       uint32
	GID       uint32
	Size      uint64 // bytes
	Used      uint64 // bytes of storage
	Rdev      Dev
	FSID      uint64
	// FileID is unique within FSID.
	FileID              uint64
	Atime, Mtime, Ctime Time

	// Change, if HasChange is set, has another value after each change that the FS makes to the
	// object's data, attributes or names (RFC 8881, Section 5.8.1.4). Values are in no order,
	// unless the FS is a ChangeOrderer. Without it, Ctime must do.
	Change uint64

	// Birth, if HasBirth is set, is when the object was made.
	Birth Time
}

// A MaybeAttr holds attributes that may be unavailable.
type MaybeAttr struct {
	OK bool
	Attr
}

// A PreAttr holds the attributes before a change that a client needs to check whether its cache was
// current (RFC 1813, wcc_attr).
type PreAttr struct {
	OK           bool
	HasChange    bool // see Attr
	Size         uint64
	Mtime, Ctime Time
	Change       uint64
}

// WCC is an object's weak cache consistency data (RFC 1813, Section 2.6).
type WCC struct {
	Before PreAttr
	After  MaybeAttr

	// Atomic says that only this call has changed the directory's names since Before: see
	// WithAtomic.
	Atomic bool
}

// WithAtomic requests WCC.Atomic from the FS, if it supports it, at some cost.
func WithAtomic(ctx context.Context) context.Context {
	return context.WithValue(ctx, wantsAtomic{}, true)
}

// WantsAtomic reports whether ctx comes from WithAtomic.
func WantsAtomic(ctx context.Context) bool { return ctx.Value(wantsAtomic{}) != nil }

type wantsAtomic struct{}

// WithClient says from which address a call comes. By it the FS shares out what clients
// may hold: open files, and locked ones.
func WithClient(ctx context.Context, addr netip.Addr) context.Context {
	return context.WithValue(ctx, client{}, addr)
}

// ClientOf returns WithClient's address, or the zero Addr.
func ClientOf(ctx context.Context) netip.Addr {
	addr, _ := ctx.Value(client{}).(netip.Addr)
	return addr
}

type client struct{}

// SetTime says how a timestamp changes.
type SetTime uint8

// The values of SetTime, with the numbers of RFC 1813's time_how.
const (
	DontChange SetTime = iota
	SetToServer
	SetToClient
)

// A SetAttr is a change to attributes. A nil or DontChange field leaves its attribute unchanged.
type SetAttr struct {
	Mode, UID, GID *uint32
	Size           *uint64
	AtimeHow       SetTime
	MtimeHow       SetTime
	Atime, Mtime   Time // used with SetToClient
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

// Stable is how stable a write must be before the reply (RFC 1813, stable_how).
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

// A CreateHow says how Create creates a file.
type CreateHow struct {
	Mode     CreateMode
	Attr     SetAttr // the new file's; without times if Exclusive
	Verifier uint64  // Exclusive: a retry with the same verifier finds its own file
}

// An Entry is a directory entry.
type Entry struct {
	FileID uint64
	Name   []byte // valid during the call
	Cookie uint64 // continues the listing after this entry

	// Handle and Attr are set if they were requested and are available.
	HasHandle bool
	Handle    Handle
	Attr      MaybeAttr
}

// A Made is the result of creating an object.
type Made struct {
	Handle Handle
	Attr   MaybeAttr
	Dir    WCC
}

// An FSStat is a file system's space, in bytes and in files. Avail is the part that the caller may
// use.
type FSStat struct {
	TotalBytes, FreeBytes, AvailBytes uint64
	TotalFiles, FreeFiles, AvailFiles uint64
}

// A PathConf holds limits on names (RFC 1813, Section 3.3.20).
type PathConf struct {
	LinkMax, NameMax uint32
	NoTrunc          bool // long names are rejected, not truncated
	ChownRestricted  bool // only the superuser changes owners
	CaseInsensitive  bool
	CasePreserving   bool
}

// An FS is a file system to serve. All methods are safe for concurrent use.
// Methods that return WCC or MaybeAttr return them with an error too, as far as
// available. Names consist of any bytes except NUL and '/', and are not
// necessarily text.
//
// Changes other than Write are on stable storage when a method returns.
type FS interface {
	// Root returns the exported directory's handle.
	Root() Handle

	GetAttr(ctx context.Context, c *Cred, h Handle) (Attr, error)

	// SetAttr changes attributes. If guard is not nil and the object's ctime is
	// not *guard, it changes nothing and returns ErrNotSync.
	SetAttr(ctx context.Context, c *Cred, h Handle, s SetAttr, guard *Time) (WCC, error)

	// Lookup finds name in dir. "." and ".." are names too; ".." does not leave the export.
	Lookup(ctx context.Context, c *Cred, dir Handle, name string) (h Handle, obj, dirAttr MaybeAttr, err error)

	// Access returns the rights in mask that c has.
	Access(ctx context.Context, c *Cred, h Handle, mask uint32) (uint32, MaybeAttr, error)

	ReadLink(ctx context.Context, c *Cred, h Handle) (string, MaybeAttr, error)

	// Read fills p from offset off on. Without an error, n < len(p) only at the
	// end of the file. eof reports that the file ends after the last byte read.
	Read(ctx context.Context, c *Cred, h Handle, p []byte, off uint64) (n int, eof bool, a MaybeAttr, err error)

	// Write writes p at offset off, at least as stably as how, and returns the
	// actual stability. Even with an error, n bytes were written: if n is not
	// 0, RFC 1813 requires a reply without the error.
	Write(ctx context.Context, c *Cred, h Handle, p []byte, off uint64, how Stable) (n int, done Stable, w WCC, err error)

	// Commit puts the data written to the range on stable storage; count 0 means to end of
	// file.
	Commit(ctx context.Context, c *Cred, h Handle, off uint64, count uint32) (WCC, error)

	// WriteVerifier changes whenever unstable writes may have been lost: at
	// each start of the server, and after a failed Commit. The reply to a Write
	// carries the verifier from before the call, the reply to a Commit the one
	// from after it.
	WriteVerifier() uint64

	Create(ctx context.Context, c *Cred, dir Handle, name string, how CreateHow) (Made, error)
	Mkdir(ctx context.Context, c *Cred, dir Handle, name string, s SetAttr) (Made, error)
	Symlink(ctx context.Context, c *Cred, dir Handle, name, target string, s SetAttr) (Made, error)
	// Mknod creates a TypeChr, TypeBlk, TypeSock or TypeFIFO.
	Mknod(ctx context.Context, c *Cred, dir Handle, name string, t Type, d Dev, s SetAttr) (Made, error)

	Remove(ctx context.Context, c *Cred, dir Handle, name string) (WCC, error)
	Rmdir(ctx context.Context, c *Cred, dir Handle, name string) (WCC, error)
	Rename(ctx context.Context, c *Cred, from Handle, fromName string, to Handle, toName string) (fromDir, toDir WCC, err error)
	Link(ctx context.Context, c *Cred, h, dir Handle, name string) (obj MaybeAttr, dirWCC WCC, err error)

	// ReadDir calls fn for each entry after cookie (0: from the start),
	// including "." and "..", until fn returns false. verifier must be 0 with
	// cookie 0, and otherwise the value that ReadDir returned with the cookie;
	// ErrBadCookie means that the cookie is no longer valid. plus requests
	// handles and attributes.
	ReadDir(ctx context.Context, c *Cred, dir Handle, cookie, verifier uint64, plus bool, fn func(*Entry) bool) (dirAttr MaybeAttr, newVerifier uint64, eof bool, err error)

	StatFS(ctx context.Context, c *Cred, h Handle) (FSStat, MaybeAttr, error)
	PathConf(ctx context.Context, c *Cred, h Handle) (PathConf, MaybeAttr, error)

	// Close releases all resources, except memory lent by a Mapper, which is
	// released when it is returned. No other method may be running.
	Close() error
}

// A Mapper is an FS that can lend file data without copying.
type Mapper interface {
	// Map reads up to n bytes without a copy. The buffer's memory is a mapping: it shows writes
	// to the file while it is lent. If the file is truncated in the meantime, or its medium
	// fails, parts of the memory become unreadable. So only the kernel may read it, and the
	// buffer's owner is a buf.Rereader. Up to the end of the last page the memory after the
	// file's end is zero. Attributes come with a buffer. A nil buffer without an error means
	// that the caller must use Read: the data is not in memory, or too short to be worth it.
	Map(ctx context.Context, c *Cred, h Handle, off uint64, n int) (b *buf.Buf, eof bool, a MaybeAttr, err error)
}

// A ChangeOrderer is an FS that derives Attr.Change from Ctime.
type ChangeOrderer interface {
	// OrdersChanges reports whether of two values of an object's Change, the later one is
	// greater, in all processes that serve the object. If the clock is set back, values may
	// decrease with Ctime.
	OrdersChanges() bool
}

// A Container is an FS out of which other processes can move objects while clients have their
// handles.
type Container interface {
	// Within checks that h lies below the root: that a path leads to it through
	// directories that c may search. It returns ESTALE if none does.
	Within(ctx context.Context, c *Cred, h Handle) error
}

// An Identifier is an FS that recognizes an object under any handle, name or
// export.
type Identifier interface {
	// AppendKey appends a key that identifies h's object among all objects of all Identifiers
	// in the process: two Identifiers that serve the same host files return the same key for an
	// object. It makes no system call for an object in use. It returns EOPNOTSUPP if the file
	// system cannot identify objects.
	AppendKey(b []byte, h Handle) ([]byte, error)
}

// An AliasIdentifier is an Identifier with handles that have no key although the object's other
// handles may have one. Such a handle's object may become another object.
type AliasIdentifier interface {
	Identifier

	// AppendAliasKey appends the key of the object to which a handle without a key currently
	// leads.
	AppendAliasKey(b []byte, h Handle) ([]byte, error)
}

// A NameIdentifier is an Identifier that recognizes an object by a name, at less
// cost than Lookup.
type NameIdentifier interface {
	Identifier

	// AppendKeyOf appends the key for a name in dir. It checks no permission, so the key must
	// not reach a client. It returns ENOENT if no object has the name. Other errors say nothing
	// about the object: Lookup may still find it.
	AppendKeyOf(b []byte, dir Handle, name string) ([]byte, error)
}

// A Leaser is an FS that is notified when other processes use a file.
type Leaser interface {
	// Lease makes the FS call broken, at most once, when another process uses the file. The
	// scope says which uses count, and whether broken is called before or after them. broken
	// runs in its own goroutine and may wait. It may be called before Lease returns, and may be
	// running, or may even start, after release has returned. release may be called more than
	// once.
	//
	// EAGAIN: the file is open for writing, or, for LeaseAll, has no name left. For LeaseWrite:
	// another process has the file open at all, or the FS has locked it, or lends or has yet to
	// sync its data. EMFILE: there are too many leases. EOPNOTSUPP: the file cannot have
	// leases. EACCES: c may not read the file, or, for LeaseWrite, not write to it.
	Lease(ctx context.Context, c *Cred, h Handle, scope LeaseScope, broken func()) (release func(), err error)
}

// A LeaseScope is the set of uses that break a lease. A file may have both LeaseData and LeaseAll
// leases; a LeaseWrite lease is the file's only one.
type LeaseScope uint8

const (
	// LeaseData is only for data. broken is called before the change, when another process is
	// about to open the file for writing, or to truncate it. That process waits until release
	// is called, but not forever: on a host, for /proc/sys/fs/lease-break-time. The FS itself
	// writes to the file only after release: an earlier write fails with EAGAIN, and breaks the
	// lease.
	LeaseData LeaseScope = iota

	// LeaseAll is for data, as LeaseData is, and for names and attributes. broken is also
	// called within milliseconds after a change to names or attributes: rename of the file,
	// rename of another file over it, link, unlink, and changes to the mode, owner,
	// modification time, ACL or an extended attribute. No process waits for release: a caller
	// that reads names and attributes after Lease has returned misses no later change. The
	// lease is not broken by a read, which may change the access time, by a change to only the
	// access time or inode flags (chattr(1)), or by renaming a directory above the file.
	//
	// The FS's own changes to names and attributes succeed, and break the lease too. A change
	// shortly before Lease may break the lease.
	LeaseAll

	// LeaseWrite is for a holder that writes to the file: broken is called before another
	// process uses the data, when it is about to open the file even for reading, and that
	// process waits as with LeaseData. It sees all that the FS has written before release. In
	// the meantime, the FS itself opens, reads, writes and locks the file, for any caller: the
	// holder must keep other callers away.
	//
	// Changes to names and attributes break the lease as with LeaseAll, except changes to the
	// modification time alone, which writes cause too.
	LeaseWrite
)

// Errors for which the host has no errno.
var (
	ErrBadHandle = errors.New("vfs: not a handle of this file system")
	ErrNotSync   = errors.New("vfs: attributes changed since the guard was read")
	ErrBadCookie = errors.New("vfs: directory cookie is not valid any more")
	ErrBadType   = errors.New("vfs: type cannot be made")
)

// CheckName rejects a name that cannot be one path component, with the errors in RFC 1813, Section
// 3.2: EACCES for the empty name and for a name with "/" or NUL, ENAMETOOLONG for a name with more
// than limit bytes.
func CheckName(name string, limit int) error {
	switch {
	case name == "" || strings.ContainsAny(name, "/\x00"):
		return syscall.EACCES
	case len(name) > limit:
		return syscall.ENAMETOOLONG
	}
	return nil
}

// IsDots reports whether a name is "." or "..", which every directory has.
func IsDots(name string) bool { return name == "." || name == ".." }
