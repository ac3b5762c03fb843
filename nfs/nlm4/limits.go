package nlm4

const objectLen = 4 + ObjectLen // maximum netobj, with its length word

// MaxResult returns the maximum length of procedure proc's results in any
// version, in bytes.
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
