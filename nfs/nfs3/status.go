package nfs3

import "strconv"

// Status is an nfsstat3 (RFC 1813, Section 2.5): the result of a procedure. No
// other values may be sent.
type Status uint32

// The Status values. Section 2.6 describes each.
const (
	OK             Status = 0
	ErrPerm        Status = 1
	ErrNoEnt       Status = 2
	ErrIO          Status = 5
	ErrNXIO        Status = 6
	ErrAcces       Status = 13
	ErrExist       Status = 17
	ErrXDev        Status = 18
	ErrNoDev       Status = 19
	ErrNotDir      Status = 20
	ErrIsDir       Status = 21
	ErrInval       Status = 22
	ErrFBig        Status = 27
	ErrNoSpc       Status = 28
	ErrROFS        Status = 30
	ErrMLink       Status = 31
	ErrNameTooLong Status = 63
	ErrNotEmpty    Status = 66
	ErrDQuot       Status = 69
	ErrStale       Status = 70
	ErrRemote      Status = 71
	ErrBadHandle   Status = 10001
	ErrNotSync     Status = 10002
	ErrBadCookie   Status = 10003
	ErrNotSupp     Status = 10004
	ErrTooSmall    Status = 10005
	ErrServerFault Status = 10006
	ErrBadType     Status = 10007
	ErrJukebox     Status = 10008
)

var statusNames = map[Status]string{
	OK:             "NFS3_OK",
	ErrPerm:        "NFS3ERR_PERM",
	ErrNoEnt:       "NFS3ERR_NOENT",
	ErrIO:          "NFS3ERR_IO",
	ErrNXIO:        "NFS3ERR_NXIO",
	ErrAcces:       "NFS3ERR_ACCES",
	ErrExist:       "NFS3ERR_EXIST",
	ErrXDev:        "NFS3ERR_XDEV",
	ErrNoDev:       "NFS3ERR_NODEV",
	ErrNotDir:      "NFS3ERR_NOTDIR",
	ErrIsDir:       "NFS3ERR_ISDIR",
	ErrInval:       "NFS3ERR_INVAL",
	ErrFBig:        "NFS3ERR_FBIG",
	ErrNoSpc:       "NFS3ERR_NOSPC",
	ErrROFS:        "NFS3ERR_ROFS",
	ErrMLink:       "NFS3ERR_MLINK",
	ErrNameTooLong: "NFS3ERR_NAMETOOLONG",
	ErrNotEmpty:    "NFS3ERR_NOTEMPTY",
	ErrDQuot:       "NFS3ERR_DQUOT",
	ErrStale:       "NFS3ERR_STALE",
	ErrRemote:      "NFS3ERR_REMOTE",
	ErrBadHandle:   "NFS3ERR_BADHANDLE",
	ErrNotSync:     "NFS3ERR_NOT_SYNC",
	ErrBadCookie:   "NFS3ERR_BAD_COOKIE",
	ErrNotSupp:     "NFS3ERR_NOTSUPP",
	ErrTooSmall:    "NFS3ERR_TOOSMALL",
	ErrServerFault: "NFS3ERR_SERVERFAULT",
	ErrBadType:     "NFS3ERR_BADTYPE",
	ErrJukebox:     "NFS3ERR_JUKEBOX",
}

// String returns the standard's name for s, or its number.
func (s Status) String() string {
	if name, ok := statusNames[s]; ok {
		return name
	}
	return "nfsstat3(" + strconv.FormatUint(uint64(s), 10) + ")"
}

// Error makes every Status except OK an error for errors.Is.
func (s Status) Error() string { return s.String() }
