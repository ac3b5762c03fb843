package mount3

import "strconv"

// The program (RFC 1813, Section 5.1.2).
const (
	Program uint32 = 100005
	Version uint32 = 3
)

// Procedures (RFC 1813, Section 5.2).
const (
	ProcNull uint32 = iota
	ProcMnt
	ProcDump
	ProcUmnt
	ProcUmntAll
	ProcExport

	// NumProc is the number of procedures.
	NumProc
)

var procNames = [NumProc]string{"NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT"}

// ProcName returns the name of a procedure, for logs.
func ProcName(proc uint32) string {
	if proc < NumProc {
		return procNames[proc]
	}
	return "undefined"
}

// Sizes in bytes (RFC 1813, Section 5.1.4).
const (
	PathLen = 1024 // a path (maximum)
	NameLen = 255  // a name (maximum)
	FHSize  = 64   // a file handle (maximum)
)

// Status is a mountstat3 (RFC 1813, Section 5.1.5).
type Status uint32

// The Status values.
const (
	OK             Status = 0
	ErrPerm        Status = 1
	ErrNoEnt       Status = 2
	ErrIO          Status = 5
	ErrAcces       Status = 13
	ErrNotDir      Status = 20
	ErrInval       Status = 22
	ErrNameTooLong Status = 63
	ErrNotSupp     Status = 10004
	ErrServerFault Status = 10006
)

var statusNames = map[Status]string{
	OK:             "MNT3_OK",
	ErrPerm:        "MNT3ERR_PERM",
	ErrNoEnt:       "MNT3ERR_NOENT",
	ErrIO:          "MNT3ERR_IO",
	ErrAcces:       "MNT3ERR_ACCES",
	ErrNotDir:      "MNT3ERR_NOTDIR",
	ErrInval:       "MNT3ERR_INVAL",
	ErrNameTooLong: "MNT3ERR_NAMETOOLONG",
	ErrNotSupp:     "MNT3ERR_NOTSUPP",
	ErrServerFault: "MNT3ERR_SERVERFAULT",
}

// String returns the standard's name for s, or its number.
func (s Status) String() string {
	if name, ok := statusNames[s]; ok {
		return name
	}
	return "mountstat3(" + strconv.FormatUint(uint64(s), 10) + ")"
}

// Error makes every Status except OK an error for errors.Is.
func (s Status) Error() string { return s.String() }
