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

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// TestSizeAfterRecall checks that what a client writes back while another one copies the
// file, or looks for its data, counts: the file is longer than before the recall.
//
// R8881-10.4.4-1.
func TestSizeAfterRecall(t *testing.T) {
	content := strings.Repeat("written back", 100)
	for name, use := range map[string]func(o *rig, put step){
		"COPY": func(o *rig, put step) {
			dst := o.file("dst")
			res := o.copyBy(put, dst, nfs4.CopyArgs{Synchronous: true})
			assert.EqualValues(t, len(content), res.Response.Count)
		},
		"COPY of a range": func(o *rig, put step) {
			dst := o.file("dst")
			res := o.copyBy(put, dst, nfs4.CopyArgs{Synchronous: true, SrcOffset: 10, Count: 500})
			assert.EqualValues(t, 500, res.Response.Count)
		},
		"READ_PLUS": func(o *rig, put step) {
			o.seq++
			seq := step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: o.session, Sequence: o.seq}, status()}
			b := o.send(seq, put, step{nfs4.OpReadPlus, &nfs4.ReadArgs{StateID: nfs4.AnonymousStateID, Count: 4096}, status()})
			assert.Contains(t, string(b), content)
		},
		"SEEK": func(o *rig, put step) {
			var res nfs4.SeekRes
			st, _ := o.do(put, step{nfs4.OpSeek, &nfs4.SeekArgs{StateID: nfs4.AnonymousStateID, Offset: 100, What: nfs4.ContentHole}, &res})
			require.Equal(t, nfs4.OK, st)
			assert.EqualValues(t, len(content), res.Offset)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, back := writeRig(t)
				opened, put := g.writing("f")
				own := g.anotherSession("client")
				back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
					assert.Equal(t, nfs4.OK, own.put(put, opened.Delegation.StateID, content))
					assert.Equal(t, nfs4.OK, own.give(put, opened.Delegation.StateID))
				}
				o, _ := g.clientAt("other", "192.0.2.2:700")
				use(o, put)
				assert.Equal(t, 1, back.count())
			})
		})
	}
}

// TestCopyWaitsWithoutPermits checks that COPYs which wait for a client with a delegation,
// of the source or of the target, hold no permit of either export: other calls of their
// host go on in both.
func TestCopyWaitsWithoutPermits(t *testing.T) {
	for _, name := range []string{"source", "target"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, back := writeRig(t)
				e := g.s.realm.Set().List()[0]
				fs := mem.New(mem.Options{Size: 1 << 20, Mode: 0o777})
				clients := exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true, Exclusive: true})
				require.NoError(t, g.s.realm.SetExports([]realm.Export{{Path: "/x", FS: e.FS, Clients: clients}, {Path: "/y", FS: fs, Clients: clients}}))
				g.s.ExportsChanged()
				opened, held := g.writing("f")
				own := g.anotherSession("client")
				back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
					time.Sleep(300 * time.Millisecond)
					assert.Equal(t, nfs4.OK, own.give(held, opened.Delegation.StateID))
				}
				o, _ := g.clientAt("other", "192.0.2.2:700")
				var fh nfs4.HandleRes
				st, _ := o.do(root(), look("y"), step{nfs4.OpOpen, openArgs("o", "g", nfs4.ShareBoth|nfs4.WantNoDeleg, 0, nfs4.Unchecked), new(nfs4.OpenRes)}, step{nfs4.OpGetFH, &void, &fh})
				require.Equal(t, nfs4.OK, st)
				src, dst := bytes.Clone(fhOf(held)), bytes.Clone(fh.Object)
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
							st, _ := own.raw(step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: own.session, Sequence: 1, Slot: i, HighestSlotID: i}, new(nfs4.SequenceRes)},
								put(src), step{nfs4.OpSaveFH, &void, status()}, put(dst), step{nfs4.OpCopy, &nfs4.CopyArgs{Synchronous: true, Consecutive: true}, new(nfs4.CopyRes)})
							done <- st
						}()
					}
				}
				synctest.Wait()
				assert.Equal(t, 1, back.count())
				start := time.Now()
				for _, at := range []nfs4.FH{src, dst} {
					st, _ := o.do(put(at), step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrType)}, new(nfs4.GetAttrRes)})
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
