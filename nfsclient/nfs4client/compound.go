package nfs4client

import (
	"fmt"
	"math/bits"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A Compound is one COMPOUND call: the operations after SEQUENCE, and memory
// for their results. Reset empties a Compound, the other methods add
// operations, and Session.Do executes it. A reused Compound allocates nothing.
// It is not safe for concurrent use.
//
// Results are valid after Do has returned nil. Handles, names and owners in the
// results alias the reply, and are valid until Reset.
type Compound struct {
	x            oncrpc.Exchange
	args         []byte // COMPOUND's arguments, with space for SEQUENCE
	item         []byte // WRITE's data
	itemPos      int    // item's position in args
	steps        []operation
	maxResults   int  // maximum length in bytes
	cacheThis    bool // sa_cachethis: repeating it in the session would fail or do harm
	unrepeatable bool // repeating it would fail or do harm even in another session
	err          error

	outlastsCaller bool // once sent, it waits for the reply even if its context ends

	seqArgs nfs4.SequenceArgs
	seqRes  nfs4.SequenceRes
	head    nfs4.CompoundRes
	granted chan uint32 // receives a slot ID; see slotTable
	epoch   uint64      // the epoch of the client ID that executed c

	// Memory for arguments and results that would otherwise escape.
	handleArgs  nfs4.HandleArgs
	getAttrArgs nfs4.GetAttrArgs
	getAttrRes  nfs4.GetAttrRes
	readArgs    nfs4.ReadArgs
	readRes     nfs4.ReadRes
	writeArgs   nfs4.WriteArgs
	writeRes    nfs4.WriteRes
	statusRes   nfs4.StatusRes
}

// An operation is one operation in a Compound.
type operation struct {
	op  nfs4.Op
	res nfs4.Message
}

// Lengths in bytes.
const (
	headLen        = 3 * 4                             // CompoundArgs or CompoundRes without a tag
	seqLen         = 4 + nfs4.SessionIDSize + 4*4      // SEQUENCE's arguments
	frontLen       = headLen + seqLen                  // filled in by Do
	seqResLen      = 2*4 + nfs4.SessionIDSize + 5*4    // SEQUENCE's results
	opResLen       = 2 * 4                             // an operation's number and status
	replyHeaderLen = 6 * 4                             // a reply's RPC header
	headerSlack    = 512                               // RPC headers, with a 400-byte credential
	maxItem        = 1 << 30                           // a data item
	changeInfoLen  = 4 + 8 + 8                         // a change_info4
	bitmapLen      = 4 + 3*4                           // a bitmap4
	stateIDLen     = 4 + nfs4.OtherSize                // a stateid4
	ownerLen       = 4 + nfs4.OpaqueLimit              // an owner's name
	delegLen       = 4 + stateIDLen + 4 + 16 + 12 + 64 // an open_delegation4
)

// Reset empties c and invalidates its results.
func (c *Compound) Reset() {
	c.x.Release()
	if c.granted == nil {
		c.granted = make(chan uint32, 1)
		c.args = make([]byte, frontLen, 512)
	}
	c.args, c.steps = c.args[:frontLen], c.steps[:0]
	c.item, c.itemPos, c.maxResults, c.cacheThis, c.unrepeatable, c.outlastsCaller, c.err = nil, 0, headLen+seqResLen, false, false, false, nil
	c.x.Sink = nil
}

// Add adds operation op with arguments args. Do decodes the results into res.
// Add must not be used for READ and WRITE, whose data are sent separately.
func (c *Compound) Add(op nfs4.Op, args, res nfs4.Message) {
	if c.granted == nil {
		c.Reset()
	}
	c.args = nfs4.AppendOp(c.args, op, args)
	c.steps = append(c.steps, operation{op, res})
	c.maxResults += opResLen + maxResultLen(op, args)
	c.cacheThis = c.cacheThis || mustCacheReply(op)
	c.unrepeatable = c.unrepeatable || isUnrepeatable(op, args)
}

var void nfs4.Void

// PutFH makes h the current filehandle.
func (c *Compound) PutFH(h nfs4.FH) {
	c.handleArgs.Object = h
	c.Add(nfs4.OpPutFH, &c.handleArgs, &c.statusRes)
	c.handleArgs.Object = nil
}

// PutRootFH makes the server's namespace root the current filehandle.
func (c *Compound) PutRootFH() { c.Add(nfs4.OpPutRootFH, &void, &c.statusRes) }

// Lookup makes the object called name in the current directory the current
// filehandle.
func (c *Compound) Lookup(name string) {
	c.Add(nfs4.OpLookup, &nfs4.NameArgs{Name: []byte(name)}, &c.statusRes)
}

// GetFH gets the current filehandle.
func (c *Compound) GetFH(res *nfs4.HandleRes) { c.Add(nfs4.OpGetFH, &void, res) }

// GetAttr gets the current object's attributes.
func (c *Compound) GetAttr(mask nfs4.Bitmap, res *nfs4.GetAttrRes) {
	c.getAttrArgs.Request = mask
	c.Add(nfs4.OpGetAttr, &c.getAttrArgs, res)
}

// Read reads from the current file into p. Over RDMA the data are placed there
// directly. After Do, res.Data is the start of p. A Compound can have one Read
// or one Write.
func (c *Compound) Read(id nfs4.StateID, offset uint64, p []byte, res *nfs4.ReadRes) {
	c.checkSingleItem(p)
	c.readArgs = nfs4.ReadArgs{StateID: id, Offset: offset, Count: uint32(len(p))}
	c.Add(nfs4.OpRead, &c.readArgs, res)
	c.x.Sink = p
}

// Write writes data to the current file. Over RDMA the server reads them from
// data's memory. The data must not change until Do has returned.
func (c *Compound) Write(id nfs4.StateID, offset uint64, data []byte, stable nfs4.Stable, res *nfs4.WriteRes) {
	c.checkSingleItem(data)
	c.writeArgs = nfs4.WriteArgs{StateID: id, Offset: offset, Stable: stable, Data: data}
	c.Add(nfs4.OpWrite, &c.writeArgs, res)
	c.writeArgs.Data = nil
	c.item, c.itemPos = data, len(c.args)
}

// checkSingleItem sets c.err if c would have more than one data item, or too
// long a one.
func (c *Compound) checkSingleItem(p []byte) {
	switch {
	case c.item != nil || c.x.Sink != nil:
		c.err = fmt.Errorf("nfs4client: a Compound can have only one READ or WRITE")
	case len(p) > maxItem:
		c.err = fmt.Errorf("nfs4client: READ or WRITE is too long: %d bytes", len(p))
	}
}

// prepareExchange fills in the header and, if seq is set, SEQUENCE, and sets up
// the exchange.
func (c *Compound) prepareExchange(s *Session, seq bool) {
	if c.granted == nil {
		c.Reset()
	}
	x, n := &c.x, uint32(len(c.steps))
	start := 0
	if seq {
		n++
	} else {
		start = seqLen
	}
	head := nfs4.CompoundArgs{Minor: s.cfg.Minor, N: n}
	b := head.AppendTo(c.args[start:start])
	if seq {
		nfs4.AppendOp(b, nfs4.OpSequence, &c.seqArgs)
	}
	x.Prog, x.Vers, x.Proc, x.Cred = nfs4.Program, nfs4.Version, nfs4.ProcCompound, s.cfg.Cred
	x.Args, x.Item, x.Tail, x.MaxResults = c.args[start:], nil, nil, c.maxResults
	if c.item != nil {
		x.Args, x.Item, x.Tail = c.args[start:c.itemPos], c.item, c.args[c.itemPos:]
	}
}

// limitResults limits the reply memory to the session's maximum reply size,
// which includes the RPC header (RFC 8881, Section 18.36.3,
// ca_maxresponsesize). An operation's longest results may exceed it, but then
// the server rejects the operation.
func (c *Compound) limitResults(g *sessionState) {
	most := int(g.fore.MaxResponseSize) - replyHeaderLen - len(c.x.Sink) - xdr.Pad(len(c.x.Sink))
	c.x.MaxResults = min(c.x.MaxResults, most)
}

// requestLen returns an upper bound for the call's length in bytes.
func (c *Compound) requestLen() int {
	return headerSlack + len(c.args) + len(c.item) + xdr.Pad(len(c.item))
}

// mustCacheReply reports whether repeating op would fail or do harm, so that
// the server must cache its reply. A WRITE can be repeated.
func mustCacheReply(op nfs4.Op) bool {
	switch op {
	case nfs4.OpClose, nfs4.OpCreate, nfs4.OpLink, nfs4.OpLock, nfs4.OpLockU, nfs4.OpOpen, nfs4.OpOpenDowngrade, nfs4.OpRemove,
		nfs4.OpRename, nfs4.OpSetAttr, nfs4.OpDelegReturn, nfs4.OpFreeStateID, nfs4.OpReclaimComplete:
		return true
	}
	return false
}

// isUnrepeatable reports whether op must not be repeated when its session is
// lost, and with it the cached reply. An OPEN can be repeated, because one
// owner's opens are one open, unless it must create the file (GUARDED).
func isUnrepeatable(op nfs4.Op, args nfs4.Message) bool {
	if a, ok := args.(*nfs4.OpenArgs); ok {
		return a.How == nfs4.Guarded
	}
	return mustCacheReply(op) && op != nfs4.OpReclaimComplete
}

// maxResultLen returns the maximum length in bytes of op's results, without
// number and status.
func maxResultLen(op nfs4.Op, args nfs4.Message) int {
	switch op {
	case nfs4.OpAccess, nfs4.OpRead, nfs4.OpCommit:
		return 2 * 4
	case nfs4.OpWrite:
		return 4 * 4
	case nfs4.OpGetFH:
		return 4 + nfs4.FHSize
	case nfs4.OpClose, nfs4.OpOpenDowngrade, nfs4.OpLockU:
		return stateIDLen
	case nfs4.OpLock, nfs4.OpLockT:
		return 8 + 8 + 4 + 8 + ownerLen
	case nfs4.OpCreate:
		return changeInfoLen + bitmapLen
	case nfs4.OpRemove, nfs4.OpLink:
		return changeInfoLen
	case nfs4.OpRename:
		return 2 * changeInfoLen
	case nfs4.OpSetAttr:
		return bitmapLen
	case nfs4.OpOpen:
		return stateIDLen + changeInfoLen + 4 + bitmapLen + delegLen + 256
	case nfs4.OpExchangeID:
		return 8 + 4 + 4 + 64 + 8 + 3*ownerLen + 256
	case nfs4.OpCreateSession:
		return nfs4.SessionIDSize + 2*4 + 2*8*4
	case nfs4.OpSecInfo, nfs4.OpSecInfoNoName:
		return 512
	case nfs4.OpGetAttr:
		if a, ok := args.(*nfs4.GetAttrArgs); ok {
			return maxAttrsLen(&a.Request)
		}
	case nfs4.OpReadDir:
		if a, ok := args.(*nfs4.ReadDirArgs); ok {
			return int(a.MaxCount)
		}
	case nfs4.OpPutFH, nfs4.OpPutRootFH, nfs4.OpPutPubFH, nfs4.OpLookup, nfs4.OpLookupP, nfs4.OpSaveFH, nfs4.OpRestoreFH,
		nfs4.OpDestroySession, nfs4.OpDestroyClientID, nfs4.OpReclaimComplete, nfs4.OpFreeStateID, nfs4.OpVerify, nfs4.OpNVerify:
		return 0
	}
	return 2048
}

// maxAttrsLen returns the maximum length in bytes of these attributes, if owner
// names have at most 128 bytes.
func maxAttrsLen(m *nfs4.Bitmap) int {
	n := bitmapLen + 4
	for _, w := range m.Words {
		n += 16 * bits.OnesCount32(w)
	}
	for _, a := range [...]struct {
		id  nfs4.AttrID
		len int
	}{
		{nfs4.AttrOwner, 128}, {nfs4.AttrOwnerGroup, 128}, {nfs4.AttrFileHandle, nfs4.FHSize}, {nfs4.AttrFSLocations, 4096},
	} {
		if m.Has(a.id) {
			n += a.len
		}
	}
	return n
}
