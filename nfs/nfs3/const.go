package nfs3

// The program (RFC 1813, Section 2.2).
const (
	Program uint32 = 100003
	Version uint32 = 3
)

// Procedures (RFC 1813, Section 3).
const (
	ProcNull uint32 = iota
	ProcGetAttr
	ProcSetAttr
	ProcLookup
	ProcAccess
	ProcReadLink
	ProcRead
	ProcWrite
	ProcCreate
	ProcMkdir
	ProcSymlink
	ProcMknod
	ProcRemove
	ProcRmdir
	ProcRename
	ProcLink
	ProcReadDir
	ProcReadDirPlus
	ProcFSStat
	ProcFSInfo
	ProcPathConf
	ProcCommit

	// NumProc is the number of procedures.
	NumProc
)

var procNames = [NumProc]string{
	"NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ",
	"WRITE", "CREATE", "MKDIR", "SYMLINK", "MKNOD", "REMOVE", "RMDIR",
	"RENAME", "LINK", "READDIR", "READDIRPLUS", "FSSTAT", "FSINFO",
	"PATHCONF", "COMMIT",
}

// ProcName returns the name of a procedure, for logs.
func ProcName(proc uint32) string {
	if proc < NumProc {
		return procNames[proc]
	}
	return "undefined"
}

// Access rights (RFC 1813, Section 3.3.4).
const (
	AccessRead uint32 = 1 << iota
	AccessLookup
	AccessModify
	AccessExtend
	AccessDelete
	AccessExecute
)

// File system properties (RFC 1813, Section 3.3.19).
const (
	FSFLink        uint32 = 0x01
	FSFSymlink     uint32 = 0x02
	FSFHomogeneous uint32 = 0x08
	FSFCanSetTime  uint32 = 0x10
)
