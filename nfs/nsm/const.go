package nsm

// The program (XNFS, SM_PROG and SM_VERS).
const (
	Program uint32 = 100024
	Version uint32 = 1
)

// Procedures.
const (
	ProcNull uint32 = iota
	ProcStat
	ProcMon
	ProcUnmon
	ProcUnmonAll
	ProcSimuCrash
	ProcNotify

	// NumProc is the number of procedures.
	NumProc
)

var procNames = [NumProc]string{"NULL", "STAT", "MON", "UNMON", "UNMON_ALL", "SIMU_CRASH", "NOTIFY"}

// ProcName returns the name of a procedure, for logs.
func ProcName(proc uint32) string {
	if proc < NumProc {
		return procNames[proc]
	}
	return "undefined"
}

// Sizes in bytes (XNFS, SM_MAXSTRLEN).
const (
	NameLen = 1024 // a host name (maximum)
	PrivLen = 16   // the requester's private bytes
)

// MaxResult returns the maximum length of procedure proc's results in bytes.
func MaxResult(proc uint32) int {
	switch proc {
	case ProcStat, ProcMon:
		return 8
	case ProcUnmon, ProcUnmonAll:
		return 4
	}
	return 0
}
