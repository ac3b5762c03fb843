package nfs4server

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// TestSizeAfterRecall checks that what a client writes back while another one copies the
// file, or looks for its data, counts: the file is longer than before the recall.
//
// R8881-10.4.4-1.
func TestSizeAfterRecall(t *testing.T) {
	content := strings.Repeat("written back", 100)
	for name, use := range map[string]func(o *testServer, put step){
		"COPY": func(o *testServer, put step) {
			dst := o.makeFileStep("dst")
			res := o.copyWithStateIDs(put, dst, nfs4.CopyArgs{Synchronous: true})
			assert.EqualValues(t, len(content), res.Response.Count)
		},
		"COPY of a range": func(o *testServer, put step) {
			dst := o.makeFileStep("dst")
			res := o.copyWithStateIDs(put, dst, nfs4.CopyArgs{Synchronous: true, SrcOffset: 10, Count: 500})
			assert.EqualValues(t, 500, res.Response.Count)
		},
		"READ_PLUS": func(o *testServer, put step) {
			o.seq++
			seq := step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: o.session, Sequence: o.seq}, newStatusRes()}
			b := o.sendCompound(seq, put, step{nfs4.OpReadPlus, &nfs4.ReadArgs{StateID: nfs4.AnonymousStateID, Count: 4096}, newStatusRes()})
			assert.Contains(t, string(b), content)
		},
		"SEEK": func(o *testServer, put step) {
			var res nfs4.SeekRes
			st, _ := o.sendSteps(put, step{nfs4.OpSeek, &nfs4.SeekArgs{StateID: nfs4.AnonymousStateID, Offset: 100, What: nfs4.ContentHole}, &res})
			require.Equal(t, nfs4.OK, st)
			assert.EqualValues(t, len(content), res.Offset)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, back := newWriteDelegServer(t)
				opened, put := g.openForWriting("f")
				own := g.anotherSession("client")
				back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
					assert.Equal(t, nfs4.OK, own.writeAtStart(put, opened.Delegation.StateID, content))
					assert.Equal(t, nfs4.OK, own.returnDelegation(put, opened.Delegation.StateID))
				}
				o, _ := g.newClientAt("other", "192.0.2.2:700")
				use(o, put)
				assert.Equal(t, 1, back.callCount())
			})
		})
	}
}

// TestCopyWaitsWithoutPermits checks that COPYs that wait for a client with a delegation of the
// source or the target hold no permit for either export: other calls from their host continue
// in both.
func TestCopyWaitsWithoutPermits(t *testing.T) {
	for _, name := range []string{"source", "target"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, back := newWriteDelegServer(t)
				e := g.s.exports.Snapshot().List()[0]
				fs := mem.New(mem.Options{Size: 1 << 20, Mode: 0o777})
				clients := exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true, Exclusive: true})
				require.NoError(t, g.s.exports.SetExports([]exportset.Export{{Path: "/x", FS: e.FS, Clients: clients}, {Path: "/y", FS: fs, Clients: clients}}))
				opened, held := g.openForWriting("f")
				own := g.anotherSession("client")
				back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
					time.Sleep(300 * time.Millisecond)
					assert.Equal(t, nfs4.OK, own.returnDelegation(held, opened.Delegation.StateID))
				}
				o, _ := g.newClientAt("other", "192.0.2.2:700")
				var fh nfs4.HandleRes
				st, _ := o.sendSteps(putRootStep(), lookupStep("y"), step{nfs4.OpOpen, openArgs("o", "g", nfs4.ShareBoth|nfs4.WantNoDeleg, 0, nfs4.Unchecked), new(nfs4.OpenRes)}, step{nfs4.OpGetFH, &void, &fh})
				require.Equal(t, nfs4.OK, st)
				src, dst := bytes.Clone(handleInStep(held)), bytes.Clone(fh.Object)
				if name == "target" {
					src, dst = dst, src
				}
				const sessions, slots = 5, 60 // more than the permits of a host
				done := make(chan nfs4.Status, sessions*slots)
				for i := range sessions {
					many := channel
					many.MaxRequests = slots
					own := *o
					own.connectWith(fmt.Sprint("copies ", i), many)
					for i := range uint32(slots) {
						go func() {
							st, _ := own.sendRaw(step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: own.session, Sequence: 1, Slot: i, HighestSlotID: i}, new(nfs4.SequenceRes)},
								putStep(src), step{nfs4.OpSaveFH, &void, newStatusRes()}, putStep(dst), step{nfs4.OpCopy, &nfs4.CopyArgs{Synchronous: true, Consecutive: true}, new(nfs4.CopyRes)})
							done <- st
						}()
					}
				}
				synctest.Wait()
				assert.Equal(t, 1, back.callCount())
				start := time.Now()
				for _, at := range []nfs4.FH{src, dst} {
					st, _ := o.sendSteps(putStep(at), step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrType)}, new(nfs4.GetAttrRes)})
					assert.Equal(t, nfs4.OK, st)
				}
				assert.Zero(t, time.Since(start))
				assert.Empty(t, done)
				seen := make(map[nfs4.Status]int)
				for range sessions * slots {
					seen[<-done]++
				}
				assert.Equal(t, map[nfs4.Status]int{nfs4.OK: sessions * slots}, seen)
			})
		})
	}
}
