package nfsacl

// MaxResult returns the maximum length of procedure proc's results in bytes.
func MaxResult(proc uint32) int {
	switch proc {
	case ProcGetACL:
		return statusLen + postAttrLen + 4 + 2*listLen
	case ProcSetACL:
		return statusLen + postAttrLen
	}
	return 0
}
