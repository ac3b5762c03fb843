package nlm4

// A Binding is the Upper-Layer Binding of a version of this program (RFC 8267,
// Section 5.1), for servers that answer the program on NFS connections. Nothing
// in the program is DDP-eligible. Pass a Binding to stream.Listen.
type Binding struct{ Vers uint32 }

// Program returns the number and the version of the program.
func (b Binding) Program() (prog, vers uint32) { return Program, b.Vers }

// ArgItem returns 0 for the length: there is no such argument.
func (Binding) ArgItem(uint32, []byte) (start, n int) { return 0, 0 }

// ResultItem returns 0 for the length: there is no such result.
func (Binding) ResultItem(uint32, []byte) (start, n int) { return 0, 0 }

// MaxResults returns the length in bytes of the longest results of a procedure.
func (Binding) MaxResults(proc uint32, _ []byte) (rest, item int) { return MaxResult(proc), 0 }

const objectLen = 4 + ObjectLen // the longest netobj, with its length word

// MaxResult returns the length in bytes of the longest results that procedure
// proc can have, in any version.
func MaxResult(proc uint32) int {
	switch proc {
	case ProcTest:
		return objectLen + 4 + 4 + 4 + objectLen + 16
	case ProcLock, ProcCancel, ProcUnlock, ProcGranted, ProcNMLock:
		return objectLen + 4
	case ProcShare, ProcUnshare:
		return objectLen + 4 + 4
	}
	return 0
}
