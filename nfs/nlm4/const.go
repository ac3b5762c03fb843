package nlm4

import "strconv"

// The program (RFC 1813, Section 6.1.2), and its older versions.
const (
	Program  uint32 = 100021
	Version  uint32 = 4
	Version1 uint32 = 1
	Version3 uint32 = 3
)

// Procedures (RFC 1813, Section 6.2). Version 1 ends with GRANTED_RES.
const (
	ProcNull uint32 = iota
	ProcTest
	ProcLock
	ProcCancel
	ProcUnlock
	ProcGranted
	ProcTestMsg
	ProcLockMsg
	ProcCancelMsg
	ProcUnlockMsg
	ProcGrantedMsg
	ProcTestRes
	ProcLockRes
	ProcCancelRes
	ProcUnlockRes
	ProcGrantedRes
	ProcShare   uint32 = iota + 4
	ProcUnshare        // 21
	ProcNMLock         // 22: LOCK without monitoring of the client
	ProcFreeAll        // 23

	// NumProc is the last procedure's number plus one.
	NumProc
)

var procNames = [NumProc]string{
	ProcNull: "NULL", ProcTest: "TEST", ProcLock: "LOCK", ProcCancel: "CANCEL", ProcUnlock: "UNLOCK", ProcGranted: "GRANTED",
	ProcTestMsg: "TEST_MSG", ProcLockMsg: "LOCK_MSG", ProcCancelMsg: "CANCEL_MSG", ProcUnlockMsg: "UNLOCK_MSG", ProcGrantedMsg: "GRANTED_MSG",
	ProcTestRes: "TEST_RES", ProcLockRes: "LOCK_RES", ProcCancelRes: "CANCEL_RES", ProcUnlockRes: "UNLOCK_RES", ProcGrantedRes: "GRANTED_RES",
	ProcShare: "SHARE", ProcUnshare: "UNSHARE", ProcNMLock: "NM_LOCK", ProcFreeAll: "FREE_ALL",
}

// ProcName returns the name of a procedure, for logs.
func ProcName(proc uint32) string {
	if Defined(Version, proc) {
		return procNames[proc]
	}
	return "undefined"
}

// Defined reports whether a version has a procedure.
func Defined(vers, proc uint32) bool {
	switch {
	case proc <= ProcGrantedRes:
		return true
	case proc >= NumProc || procNames[proc] == "":
		return false
	}
	return vers != Version1
}

// Sizes in bytes (XNFS, LM_MAXSTRLEN, LM_MAXNAMELEN and MAXNETOBJ_SZ).
const (
	CallerLen = 1024 // a caller's name (maximum)
	NotifyLen = 1025 // a name in a Notify (maximum)
	ObjectLen = 1024 // a netobj (maximum): cookie, handle, owner
)

// Status is an nlm4_stats (RFC 1813, Section 6.1.4).
type Status uint32

// The Status values. Version 3 ends with Deadlock, version 1 with DeniedGrace.
const (
	Granted       Status = iota
	Denied               // another owner holds a conflicting lock
	DeniedNoLocks        // the server lacks resources
	Blocked              // a GRANTED call will follow
	DeniedGrace          // only reclaims are granted until the grace period ends
	Deadlock             // the lock would never be granted
	ReadOnly             // the file system is read-only
	StaleFH              // the handle refers to no file
	TooBig               // the server cannot represent the range
	Failed

	numStatus
)

var statusNames = [numStatus]string{
	"NLM4_GRANTED", "NLM4_DENIED", "NLM4_DENIED_NOLOCKS", "NLM4_BLOCKED", "NLM4_DENIED_GRACE_PERIOD",
	"NLM4_DEADLCK", "NLM4_ROFS", "NLM4_STALE_FH", "NLM4_FBIG", "NLM4_FAILED",
}

// String returns the standard's name for s, or its number.
func (s Status) String() string {
	if s < numStatus {
		return statusNames[s]
	}
	return "nlm4_stats(" + strconv.FormatUint(uint64(s), 10) + ")"
}

// Error makes every Status except Granted an error for errors.Is.
func (s Status) Error() string { return s.String() }

// lastStatus returns the last Status that a version defines.
func lastStatus(vers uint32) Status {
	switch vers {
	case Version1:
		return DeniedGrace
	case Version3:
		return Deadlock
	}
	return Failed
}

// mapToVersion returns s, or the nearest Status that a version defines: Denied for a
// deadlock, and DeniedNoLocks for anything else.
func (s Status) mapToVersion(vers uint32) Status {
	switch {
	case s <= lastStatus(vers):
		return s
	case s == Deadlock:
		return Denied
	}
	return DeniedNoLocks
}
