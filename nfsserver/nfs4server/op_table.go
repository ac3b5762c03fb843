package nfs4server

import "github.com/nfsrdma/nfsrdma/nfs/nfs4"

// Lengths in bytes of wire forms, for the longest results.
const (
	statusLen  = minResultLen
	changeLen  = 4 + 8 + 8
	bitmapLen  = 4 + 3*4
	stateidLen = 4 + nfs4.OtherSize
	handleLen  = 4 + 64
	channelLen = 7 * 4

	delegationLen = 4 + stateidLen + 4 + 4*4 // with an ACE whose who is empty
)

// operations are the supported operations, and DELEGPURGE. Other operations return
// NFS4ERR_NOTSUPP, or NFS4ERR_OP_ILLEGAL if the minor version does not define them.
var operations = [nfs4.NumOp]operation{
	nfs4.OpAccess:        {serveAccess, needsCurrent, statusLen + 8},
	nfs4.OpClose:         {serveClose, needsCurrent | changesState | hasOwnerSeqID, statusLen + stateidLen},
	nfs4.OpCommit:        {serveCommit, needsCurrent, statusLen + 8},
	nfs4.OpCreate:        {serveCreate, needsCurrent | changesState | createsObject, statusLen + changeLen + bitmapLen},
	nfs4.OpDelegReturn:   {serveDelegReturn, needsCurrent | changesState, 0},
	nfs4.OpGetAttr:       {serveGetAttr, needsCurrent | allowedAbsent, 0},
	nfs4.OpGetFH:         {serveGetFH, needsCurrent, statusLen + handleLen},
	nfs4.OpLink:          {serveLink, needsCurrent | needsSaved | changesState, statusLen + changeLen},
	nfs4.OpLock:          {serveLock, needsCurrent | changesState | hasOwnerSeqID, deniedLen},
	nfs4.OpLockT:         {serveLockT, needsCurrent, deniedLen},
	nfs4.OpLockU:         {serveLockU, needsCurrent | changesState | hasOwnerSeqID, statusLen + stateidLen},
	nfs4.OpLookup:        {serveLookup, needsCurrent | checksSecurity, 0},
	nfs4.OpLookupP:       {serveLookupP, needsCurrent | checksSecurity, 0},
	nfs4.OpNVerify:       {serveNVerify, needsCurrent | allowedAbsent, 0},
	nfs4.OpOpen:          {serveOpen, needsCurrent | checksSecurity | changesState | createsObject | hasOwnerSeqID, statusLen + stateidLen + changeLen + 4 + bitmapLen + delegationLen},
	nfs4.OpOpenDowngrade: {serveOpenDowngrade, needsCurrent | changesState | hasOwnerSeqID, statusLen + stateidLen},
	nfs4.OpPutFH:         {servePutFH, checksSecurity, 0},
	nfs4.OpPutPubFH:      {servePutRootFH, checksSecurity, 0},
	nfs4.OpPutRootFH:     {servePutRootFH, checksSecurity, 0},
	nfs4.OpRead:          {serveRead, needsCurrent, readResultLen},
	nfs4.OpReadDir:       {serveReadDir, needsCurrent, 0},
	nfs4.OpReadLink:      {serveReadLink, needsCurrent, 0},
	nfs4.OpRemove:        {serveRemove, needsCurrent | changesState, statusLen + changeLen},
	nfs4.OpRename:        {serveRename, needsCurrent | needsSaved | changesState, statusLen + 2*changeLen},
	nfs4.OpRestoreFH:     {serveRestoreFH, needsSaved | checksSecurity, 0},
	nfs4.OpSaveFH:        {serveSaveFH, needsCurrent | checksSecurity, 0},
	nfs4.OpSecInfo:       {serveSecInfo, needsCurrent | checksSecurity, secInfoLen},
	nfs4.OpSecInfoNoName: {serveSecInfoNoName, needsCurrent | checksSecurity, secInfoLen},
	nfs4.OpSetAttr:       {serveSetAttr, needsCurrent | changesState, statusLen + bitmapLen},
	nfs4.OpVerify:        {serveVerify, needsCurrent | allowedAbsent, 0},
	nfs4.OpWrite:         {serveWrite, needsCurrent | changesState, statusLen + 16},

	nfs4.OpOpenConfirm:        {serveOpenConfirm, needsCurrent | changesState | hasOwnerSeqID, statusLen + stateidLen},
	nfs4.OpReleaseLockOwner:   {serveReleaseLockOwner, changesState, 0},
	nfs4.OpDelegPurge:         {serveDelegPurge, 0, 0},
	nfs4.OpRenew:              {serveRenew, 0, 0},
	nfs4.OpSetClientID:        {serveSetClientID, changesState, statusLen + 2*(4+maxCallbackAddr)},
	nfs4.OpSetClientIDConfirm: {serveSetClientIDConfirm, changesState, 0},

	nfs4.OpAllocate:      {serveAllocate, needsCurrent | changesState, statusLen},
	nfs4.OpClone:         {serveClone, needsCurrent | needsSaved | changesState, statusLen},
	nfs4.OpCopy:          {serveCopy, needsCurrent | needsSaved | changesState, statusLen + 4 + stateidLen + 8 + 4 + nfs4.VerifierSize + 4 + 4},
	nfs4.OpDeallocate:    {serveDeallocate, needsCurrent | changesState, statusLen},
	nfs4.OpIOAdvise:      {serveIOAdvise, needsCurrent, statusLen + bitmapLen},
	nfs4.OpOffloadCancel: {serveOffloadCancel, 0, 0},
	nfs4.OpOffloadStatus: {serveOffloadStatus, 0, statusLen + 8 + 4 + 4},
	nfs4.OpReadPlus:      {serveReadPlus, needsCurrent, readPlusResultLen + holeSegmentLen},
	nfs4.OpSeek:          {serveSeek, needsCurrent, statusLen + 4 + 8},
	nfs4.OpGetXattr:      {serveGetXattr, needsCurrent, 0},
	nfs4.OpListXattrs:    {serveListXattrs, needsCurrent, statusLen + nfs4.XattrsLen},
	nfs4.OpRemoveXattr:   {serveRemoveXattr, needsCurrent | changesState, statusLen + changeLen},
	nfs4.OpSetXattr:      {serveSetXattr, needsCurrent | changesState, statusLen + changeLen},

	nfs4.OpBackchannelCtl:    {serveBackchannelCtl, 0, 0},
	nfs4.OpBindConnToSession: {serveBindConnToSession, allowedAlone, 0},
	nfs4.OpCreateSession:     {serveCreateSession, allowedAlone, statusLen + nfs4.SessionIDSize + 8 + 2*channelLen},
	nfs4.OpDestroyClientID:   {serveDestroyClientID, allowedAlone, 0},
	nfs4.OpDestroySession:    {serveDestroySession, allowedAlone, 0},
	nfs4.OpExchangeID:        {serveExchangeID, allowedAlone, statusLen + 100},
	nfs4.OpFreeStateID:       {serveFreeStateID, 0, 0},
	nfs4.OpReclaimComplete:   {serveReclaimComplete, 0, 0},
	nfs4.OpSetSSV:            {serveSetSSV, 0, 0},
	nfs4.OpTestStateID:       {serveTestStateID, 0, statusLen + 4},
}
