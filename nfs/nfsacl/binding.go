package nfsacl

// A Binding is the Upper-Layer Binding of this program (RFC 8267, Section 5.2):
// nothing in the program is DDP-eligible. Pass a Binding to
// stream.Listen.
type Binding struct{}

// Program returns the number and the version of the program.
func (Binding) Program() (prog, vers uint32) { return Program, Version }

// ArgItem returns 0 for the length: there is no such argument.
func (Binding) ArgItem(uint32, []byte) (start, n int) { return 0, 0 }

// ResultItem returns 0 for the length: there is no such result.
func (Binding) ResultItem(uint32, []byte) (start, n int) { return 0, 0 }

// MaxResults returns the length in bytes of the longest results of a
// procedure, with two lists of MaxEntries.
func (Binding) MaxResults(proc uint32, _ []byte) (rest, item int) { return MaxResult(proc), 0 }

// MaxResult returns the length in bytes of the longest results that procedure
// proc can have.
func MaxResult(proc uint32) int {
	switch proc {
	case ProcGetACL:
		return statusLen + postAttrLen + 4 + 2*listLen
	case ProcSetACL:
		return statusLen + postAttrLen
	}
	return 0
}
