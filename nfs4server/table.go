package nfs4server

import "github.com/nfsrdma/nfsrdma/nfs/nfs4"

// The lengths in bytes of wire forms, for the longest results.
const (
	statusLen  = minResult
	changeLen  = 4 + 8 + 8
	bitmapLen  = 4 + 3*4
	stateidLen = 4 + nfs4.OtherSize
	handleLen  = 4 + 64
	channelLen = 7 * 4

	delegationLen = 4 + stateidLen + 4 + 4*4 // with an ACE of nobody
)

// operations are the operations that the server has, and DELEGPURGE. Others are
// NFS4ERR_NOTSUPP, or NFS4ERR_OP_ILLEGAL if the minor version does not define
// them.
var operations = [nfs4.NumOp]operation{
	nfs4.OpAccess:        {access, needsCurrent, statusLen + 8},
	nfs4.OpClose:         {closeFile, needsCurrent | changes | sequenced, statusLen + stateidLen},
	nfs4.OpCommit:        {commit, needsCurrent, statusLen + 8},
	nfs4.OpCreate:        {create, needsCurrent | changes | makes, statusLen + changeLen + bitmapLen},
	nfs4.OpDelegReturn:   {delegReturn, needsCurrent | changes, 0},
	nfs4.OpGetAttr:       {getAttr, needsCurrent | ofPlaces, 0},
	nfs4.OpGetFH:         {getFH, needsCurrent, statusLen + handleLen},
	nfs4.OpLink:          {link, needsCurrent | needsSaved | changes, statusLen + changeLen},
	nfs4.OpLock:          {lock, needsCurrent | changes | sequenced, deniedLen},
	nfs4.OpLockT:         {lockT, needsCurrent, deniedLen},
	nfs4.OpLockU:         {lockU, needsCurrent | changes | sequenced, statusLen + stateidLen},
	nfs4.OpLookup:        {lookup, needsCurrent | judges, 0},
	nfs4.OpLookupP:       {lookupP, needsCurrent | judges, 0},
	nfs4.OpNVerify:       {nVerify, needsCurrent | ofPlaces, 0},
	nfs4.OpOpen:          {open, needsCurrent | judges | changes | makes | sequenced, statusLen + stateidLen + changeLen + 4 + bitmapLen + delegationLen},
	nfs4.OpOpenDowngrade: {openDowngrade, needsCurrent | changes | sequenced, statusLen + stateidLen},
	nfs4.OpPutFH:         {putFH, judges, 0},
	nfs4.OpPutPubFH:      {putRootFH, judges, 0},
	nfs4.OpPutRootFH:     {putRootFH, judges, 0},
	nfs4.OpRead:          {read, needsCurrent, readHead},
	nfs4.OpReadDir:       {readDir, needsCurrent, 0},
	nfs4.OpReadLink:      {readLink, needsCurrent, 0},
	nfs4.OpRemove:        {remove, needsCurrent | changes, statusLen + changeLen},
	nfs4.OpRename:        {rename, needsCurrent | needsSaved | changes, statusLen + 2*changeLen},
	nfs4.OpRestoreFH:     {restoreFH, needsSaved | judges, 0},
	nfs4.OpSaveFH:        {saveFH, needsCurrent | judges, 0},
	nfs4.OpSecInfo:       {secInfo, needsCurrent | judges, secInfoLen},
	nfs4.OpSecInfoNoName: {secInfoNoName, needsCurrent | judges, secInfoLen},
	nfs4.OpSetAttr:       {setAttr, needsCurrent | changes, statusLen + bitmapLen},
	nfs4.OpVerify:        {verify, needsCurrent | ofPlaces, 0},
	nfs4.OpWrite:         {write, needsCurrent | changes, statusLen + 16},

	nfs4.OpOpenConfirm:        {openConfirm, needsCurrent | changes | sequenced, statusLen + stateidLen},
	nfs4.OpReleaseLockOwner:   {releaseLockOwner, changes, 0},
	nfs4.OpDelegPurge:         {delegPurge, 0, 0},
	nfs4.OpRenew:              {renew, 0, 0},
	nfs4.OpSetClientID:        {setClientID, changes, statusLen + 2*(4+maxCallback)},
	nfs4.OpSetClientIDConfirm: {setClientIDConfirm, changes, 0},

	nfs4.OpAllocate:      {allocate, needsCurrent | changes, statusLen},
	nfs4.OpClone:         {clone, needsCurrent | needsSaved | changes, statusLen},
	nfs4.OpCopy:          {copyData, needsCurrent | needsSaved | changes, statusLen + 4 + stateidLen + 8 + 4 + nfs4.VerifierSize + 4 + 4},
	nfs4.OpDeallocate:    {deallocate, needsCurrent | changes, statusLen},
	nfs4.OpIOAdvise:      {ioAdvise, needsCurrent, statusLen + bitmapLen},
	nfs4.OpOffloadCancel: {offloadCancel, 0, 0},
	nfs4.OpOffloadStatus: {offloadStatus, 0, statusLen + 8 + 4 + 4},
	nfs4.OpReadPlus:      {readPlus, needsCurrent, readPlusHead + holeLen},
	nfs4.OpSeek:          {seek, needsCurrent, statusLen + 4 + 8},
	nfs4.OpGetXattr:      {getXattr, needsCurrent, 0},
	nfs4.OpListXattrs:    {listXattrs, needsCurrent, statusLen + nfs4.XattrsLen},
	nfs4.OpRemoveXattr:   {removeXattr, needsCurrent | changes, statusLen + changeLen},
	nfs4.OpSetXattr:      {setXattr, needsCurrent | changes, statusLen + changeLen},

	nfs4.OpBackchannelCtl:    {backchannelCtl, 0, 0},
	nfs4.OpBindConnToSession: {bindConnToSession, firstAlone, 0},
	nfs4.OpCreateSession:     {createSession, firstAlone, statusLen + nfs4.SessionIDSize + 8 + 2*channelLen},
	nfs4.OpDestroyClientID:   {destroyClientID, firstAlone, 0},
	nfs4.OpDestroySession:    {destroySession, firstAlone, 0},
	nfs4.OpExchangeID:        {exchangeID, firstAlone, statusLen + 100},
	nfs4.OpFreeStateID:       {freeStateID, 0, 0},
	nfs4.OpReclaimComplete:   {reclaimComplete, 0, 0},
	nfs4.OpSetSSV:            {setSSV, 0, 0},
	nfs4.OpTestStateID:       {testStateID, 0, statusLen + 4},
}
