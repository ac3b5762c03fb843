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
	NameLen = 1024 // the longest name of a host
	PrivLen = 16   // the asker's private bytes
)

// MaxResult returns the length in bytes of the longest results that procedure
// proc can have.
func MaxResult(proc uint32) int {
	switch proc {
	case ProcStat, ProcMon:
		return 8
	case ProcUnmon, ProcUnmonAll:
		return 4
	}
	return 0
}

// A Binding is the Upper-Layer Binding of this program (RFC 8267, Section 5.1),
// for servers that answer the program on NFS connections. Nothing in the program
// is DDP-eligible. Pass a Binding to stream.Listen.
type Binding struct{}

// Program returns the number and the version of the program.
func (Binding) Program() (prog, vers uint32) { return Program, Version }

// ArgItem returns 0 for the length: there is no such argument.
func (Binding) ArgItem(uint32, []byte) (start, n int) { return 0, 0 }

// ResultItem returns 0 for the length: there is no such result.
func (Binding) ResultItem(uint32, []byte) (start, n int) { return 0, 0 }

// MaxResults returns the length in bytes of the longest results of a procedure.
func (Binding) MaxResults(proc uint32, _ []byte) (rest, item int) { return MaxResult(proc), 0 }
