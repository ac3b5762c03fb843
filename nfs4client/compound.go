package nfs4client

import (
	"fmt"
	"math/bits"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Compound is one COMPOUND: the operations after SEQUENCE, and memory for
// their results. Reset empties a Compound, the other methods add operations,
// Session.Do executes it. A Compound can be used again and then allocates
// nothing. Only one goroutine at a time may use it.
//
// Results are valid after Do has returned nil. Handles, names and owners in the
// results alias the reply, and are valid until Reset.
type Compound struct {
	x     oncrpc.Exchange
	args  []byte // from COMPOUND's arguments on, with room for SEQUENCE
	item  []byte // data of a WRITE
	at    int    // of item in args
	steps []step
	long  int  // bytes of the longest results
	keep  bool // sa_cachethis: a repetition within the session would fail or do harm
	harm  bool // a repetition would fail or do harm even in another session
	err   error

	seq    nfs4.SequenceArgs
	seqRes nfs4.SequenceRes
	head   nfs4.CompoundRes
	turn   chan uint32 // see slots
	epoch  uint64      // of the client ID by which c was executed

	// Memory for arguments and results that would otherwise escape.
	handle  nfs4.HandleArgs
	getattr nfs4.GetAttrArgs
	attrs   nfs4.GetAttrRes
	read    nfs4.ReadArgs
	got     nfs4.ReadRes
	write   nfs4.WriteArgs
	put     nfs4.WriteRes
	done    nfs4.StatusRes
}

// A step is one operation of a Compound.
type step struct {
	op  nfs4.Op
	res nfs4.Message
}

// Lengths in bytes of the front of a COMPOUND.
const (
	headLen   = 3 * 4                           // of CompoundArgs and CompoundRes without a tag
	seqLen    = 4 + nfs4.SessionIDSize + 4*4    // SEQUENCE's arguments
	frontLen  = headLen + seqLen                // filled in by Do
	seqRes    = 2*4 + nfs4.SessionIDSize + 5*4  // SEQUENCE's results
	opRes     = 2 * 4                           // an operation's number and status
	replyHead = 6 * 4                           // RPC's header of a reply
	slack     = 512                             // of RPC's headers, with a credential of 400 bytes
	maxItem   = 1 << 30                         // bytes of a data item
	changeLn  = 4 + 8 + 8                       // a change_info4
	bitmapLn  = 4 + 3*4                         // a bitmap4
	stateLen  = 4 + nfs4.OtherSize              // a stateid4
	ownerLen  = 4 + nfs4.OpaqueLimit            // a name of an owner
	deleg     = 4 + stateLen + 4 + 16 + 12 + 64 // an open_delegation4
)

// Reset makes c empty and ends the validity of its results.
func (c *Compound) Reset() {
	c.x.Release()
	if c.turn == nil {
		c.turn = make(chan uint32, 1)
		c.args = make([]byte, frontLen, 512)
	}
	c.args, c.steps = c.args[:frontLen], c.steps[:0]
	c.item, c.at, c.long, c.keep, c.harm, c.err = nil, 0, headLen+seqRes, false, false, nil
	c.x.Sink = nil
}

// Add adds operation op with arguments args. Do decodes the results into res.
// Add must not be used for READ and WRITE, whose data travel apart.
func (c *Compound) Add(op nfs4.Op, args, res nfs4.Message) {
	if c.turn == nil {
		c.Reset()
	}
	c.args = nfs4.AppendOp(c.args, op, args)
	c.steps = append(c.steps, step{op, res})
	c.long += opRes + longest(op, args)
	c.keep = c.keep || changes(op)
	c.harm = c.harm || harms(op, args)
}

var void nfs4.Void

// PutFH makes h the current filehandle.
func (c *Compound) PutFH(h nfs4.FH) {
	c.handle.Object = h
	c.Add(nfs4.OpPutFH, &c.handle, &c.done)
	c.handle.Object = nil
}

// PutRootFH makes the root of the server's namespace the current filehandle.
func (c *Compound) PutRootFH() { c.Add(nfs4.OpPutRootFH, &void, &c.done) }

// Lookup makes the object of that name in the current directory the current
// filehandle.
func (c *Compound) Lookup(name string) {
	c.Add(nfs4.OpLookup, &nfs4.NameArgs{Name: []byte(name)}, &c.done)
}

// GetFH reads the current filehandle.
func (c *Compound) GetFH(res *nfs4.HandleRes) { c.Add(nfs4.OpGetFH, &void, res) }

// GetAttr reads attributes of the current object.
func (c *Compound) GetAttr(mask nfs4.Bitmap, res *nfs4.GetAttrRes) {
	c.getattr.Request = mask
	c.Add(nfs4.OpGetAttr, &c.getattr, res)
}

// Read reads from the current file into p. Over RDMA the data are placed there
// directly. After Do, res.Data is the beginning of p. A Compound can have one
// Read or one Write.
func (c *Compound) Read(id nfs4.StateID, offset uint64, p []byte, res *nfs4.ReadRes) {
	c.single(p)
	c.read = nfs4.ReadArgs{StateID: id, Offset: offset, Count: uint32(len(p))}
	c.Add(nfs4.OpRead, &c.read, res)
	c.x.Sink = p
}

// Write writes data to the current file. Over RDMA the server fetches them from
// there. The data must not change until Do has returned.
func (c *Compound) Write(id nfs4.StateID, offset uint64, data []byte, stable nfs4.Stable, res *nfs4.WriteRes) {
	c.single(data)
	c.write = nfs4.WriteArgs{StateID: id, Offset: offset, Stable: stable, Data: data}
	c.Add(nfs4.OpWrite, &c.write, res)
	c.write.Data = nil
	c.item, c.at = data, len(c.args)
}

// single checks that there is at most one data item.
func (c *Compound) single(p []byte) {
	switch {
	case c.item != nil || c.x.Sink != nil:
		c.err = fmt.Errorf("nfs4client: a Compound has one READ or WRITE at most")
	case len(p) > maxItem:
		c.err = fmt.Errorf("nfs4client: a READ or WRITE of %d bytes is too long", len(p))
	}
}

// prepare fills in SEQUENCE, and sets up the exchange.
func (c *Compound) prepare(s *Session, seq bool) {
	if c.turn == nil {
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
		nfs4.AppendOp(b, nfs4.OpSequence, &c.seq)
	}
	x.Prog, x.Vers, x.Proc, x.Cred = nfs4.Program, nfs4.Version, nfs4.ProcCompound, s.cfg.Cred
	x.Args, x.Item, x.Tail, x.MaxResults = c.args[start:], nil, nil, c.long
	if c.item != nil {
		x.Args, x.Item, x.Tail = c.args[start:c.at], c.item, c.args[c.at:]
	}
}

// confine makes the room for the reply no longer than the replies of a session,
// which count RPC's header (RFC 8881, Section 18.36.3, ca_maxresponsesize). The
// longest results of an operation may be longer, but then the server refuses.
func (c *Compound) confine(g *generation) {
	most := int(g.fore.MaxResponseSize) - replyHead - len(c.x.Sink) - xdr.Pad(len(c.x.Sink))
	c.x.MaxResults = min(c.x.MaxResults, most)
}

// requestLen returns an upper bound of the length of the call in bytes.
func (c *Compound) requestLen() int { return slack + len(c.args) + len(c.item) + xdr.Pad(len(c.item)) }

// changes reports whether a repetition of op would fail or do harm, so that its
// reply must be kept. A WRITE can be repeated.
func changes(op nfs4.Op) bool {
	switch op {
	case nfs4.OpClose, nfs4.OpCreate, nfs4.OpLink, nfs4.OpLock, nfs4.OpLockU, nfs4.OpOpen, nfs4.OpOpenDowngrade, nfs4.OpRemove,
		nfs4.OpRename, nfs4.OpSetAttr, nfs4.OpDelegReturn, nfs4.OpFreeStateID, nfs4.OpReclaimComplete:
		return true
	}
	return false
}

// harms reports whether op must not be repeated when its session is lost, and
// with the session the kept reply. An OPEN can be: opens of one owner are one
// open, unless the first made the file and the second must make it.
func harms(op nfs4.Op, args nfs4.Message) bool {
	if a, ok := args.(*nfs4.OpenArgs); ok {
		return a.How == nfs4.Guarded
	}
	return changes(op) && op != nfs4.OpReclaimComplete
}

// longest returns the length in bytes of the longest results of op, without
// number and status.
func longest(op nfs4.Op, args nfs4.Message) int {
	switch op {
	case nfs4.OpAccess, nfs4.OpRead, nfs4.OpCommit:
		return 2 * 4
	case nfs4.OpWrite:
		return 4 * 4
	case nfs4.OpGetFH:
		return 4 + nfs4.FHSize
	case nfs4.OpClose, nfs4.OpOpenDowngrade, nfs4.OpLockU:
		return stateLen
	case nfs4.OpLock, nfs4.OpLockT:
		return 8 + 8 + 4 + 8 + ownerLen
	case nfs4.OpCreate:
		return changeLn + bitmapLn
	case nfs4.OpRemove, nfs4.OpLink:
		return changeLn
	case nfs4.OpRename:
		return 2 * changeLn
	case nfs4.OpSetAttr:
		return bitmapLn
	case nfs4.OpOpen:
		return stateLen + changeLn + 4 + bitmapLn + deleg + 256
	case nfs4.OpExchangeID:
		return 8 + 4 + 4 + 64 + 8 + 3*ownerLen + 256
	case nfs4.OpCreateSession:
		return nfs4.SessionIDSize + 2*4 + 2*8*4
	case nfs4.OpSecInfo, nfs4.OpSecInfoNoName:
		return 512
	case nfs4.OpGetAttr:
		if a, ok := args.(*nfs4.GetAttrArgs); ok {
			return attrsLen(&a.Request)
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

// attrsLen returns the length in bytes of the longest list of these attributes,
// if names of owners are not longer than 128 bytes.
func attrsLen(m *nfs4.Bitmap) int {
	n := bitmapLn + 4
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
