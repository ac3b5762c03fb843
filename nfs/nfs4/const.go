package nfs4

import "math"

// The program (RFC 8881, Section 16.1) and its minor versions (RFC 8178).
const (
	Program  uint32 = 100003
	Version  uint32 = 4
	Minor0   uint32 = 0 // RFC 7530
	Minor1   uint32 = 1 // RFC 8881
	Minor2   uint32 = 2 // RFC 7862
	MaxMinor        = Minor2
)

// Procedures (RFC 8881, Section 16).
const (
	ProcNull uint32 = iota
	ProcCompound

	// NumProc is the number of procedures.
	NumProc
)

// Lengths of fixed items, and maximum lengths of others, in bytes (RFC 5662).
const (
	FHSize        = 128  // a file handle (maximum)
	VerifierSize  = 8    // a verifier4
	OtherSize     = 12   // stateid4's other
	SessionIDSize = 16   // a sessionid4
	OpaqueLimit   = 1024 // client, server and state owners (maximum)
)

// unbounded is the limit for items that only the message length limits.
const unbounded = math.MaxInt32

// ACCESS bits (RFC 8881, Section 18.1; RFC 8276, Section 8.5).
const (
	AccessRead uint32 = 1 << iota
	AccessLookup
	AccessModify
	AccessExtend
	AccessDelete
	AccessExecute
	AccessXARead
	AccessXAWrite
	AccessXAList
)

// The share_access and share_deny bits in OPEN (RFC 8881, Section 18.16).
const (
	ShareRead  uint32 = 0x1
	ShareWrite uint32 = 0x2
	ShareBoth  uint32 = 0x3

	// WantDelegMask selects the delegation request in share_access.
	WantDelegMask    uint32 = 0xff00
	WantNoPreference uint32 = 0x0000
	WantReadDeleg    uint32 = 0x0100
	WantWriteDeleg   uint32 = 0x0200
	WantAnyDeleg     uint32 = 0x0300
	WantNoDeleg      uint32 = 0x0400
	WantCancel       uint32 = 0x0500

	// WantSignalAvail and WantPushDeleg request a later delegation.
	WantSignalAvail uint32 = 0x10000
	WantPushDeleg   uint32 = 0x20000

	// WantDelegTimestamps requests authority for the file's times with a delegation, and
	// WantOpenXorDelegation only one stateid, the open's or the delegation's (RFC 9754).
	WantDelegTimestamps   uint32 = 0x100000
	WantOpenXorDelegation uint32 = 0x200000
)

// OPEN result flags (RFC 8881, Section 18.16; RFC 9754).
const (
	OpenConfirm          uint32 = 0x02 // NFSv4.0 only
	OpenLocktypePosix    uint32 = 0x04
	OpenPreserveUnlinked uint32 = 0x08
	OpenNoOpenStateID    uint32 = 0x10 // the stateid is zero: there is only a delegation
	OpenMayNotifyLock    uint32 = 0x20
)

// EXCHANGE_ID flags (RFC 8881, Section 18.35).
const (
	ExchangeSuppMovedRefer   uint32 = 0x00000001
	ExchangeSuppMovedMigr    uint32 = 0x00000002
	ExchangeSuppFenceOps     uint32 = 0x00000004
	ExchangeBindPrincStateID uint32 = 0x00000100
	ExchangeUseNonPNFS       uint32 = 0x00010000
	ExchangeUsePNFSMDS       uint32 = 0x00020000
	ExchangeUsePNFSDS        uint32 = 0x00040000
	ExchangeMaskPNFS         uint32 = 0x00070000
	ExchangeUpdConfirmed     uint32 = 0x40000000 // in arguments
	ExchangeConfirmed        uint32 = 0x80000000 // in results
	ExchangeArgMask          uint32 = 0x40070107 // every bit that arguments may have
)

// CREATE_SESSION flags (RFC 8881, Section 18.36).
const (
	SessionPersist      uint32 = 0x1
	SessionConnBackChan uint32 = 0x2
	SessionConnRDMA     uint32 = 0x4
)

// Status flags in SEQUENCE results (RFC 8881, Section 18.46).
const (
	SeqCBPathDown              uint32 = 0x0001
	SeqCBGSSContextsExpiring   uint32 = 0x0002
	SeqCBGSSContextsExpired    uint32 = 0x0004
	SeqExpiredAllStateRevoked  uint32 = 0x0008
	SeqExpiredSomeStateRevoked uint32 = 0x0010
	SeqAdminStateRevoked       uint32 = 0x0020
	SeqRecallableStateRevoked  uint32 = 0x0040
	SeqLeaseMoved              uint32 = 0x0080
	SeqRestartReclaimNeeded    uint32 = 0x0100
	SeqCBPathDownSession       uint32 = 0x0200
	SeqBackchannelFault        uint32 = 0x0400
	SeqDevIDChanged            uint32 = 0x0800
	SeqDevIDDeleted            uint32 = 0x1000
)

// Values for single attributes.
const (
	FHPersistent           uint32 = 0 // fh_expire_type
	CharsetContainsNonUTF8 uint32 = 1 // fs_charset_cap
)

// The values of change_attr_type: how a file system's change attribute changes (RFC 7862,
// Section 12.2.3).
const (
	ChangeTypeMonotonicIncr        uint32 = iota // every change increases it
	ChangeTypeVersionCounter                     // every change increases it by one
	ChangeTypeVersionCounterNoPNFS               // likewise, without pNFS
	ChangeTypeTimeMetadata                       // derived from time_metadata
	ChangeTypeUndefined                          // none of these
)
