package nfs4state

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// benchClients is the number of clients in BenchmarkClients.
const benchClients = 64

// A benchFile is one client's file and the arguments of its calls.
type benchFile struct {
	*testState
	session *Session
	open    OpenFile
	lock    Lock
}

func newBenchFile(w *testState, s *Session, n int) *benchFile {
	key := fmt.Sprint("file ", n)
	return &benchFile{
		testState: w, session: s,
		open: OpenFile{Owner: []byte("owner"), Key: key, Access: nfs4.ShareBoth},
		lock: Lock{New: true, Owner: []byte("locker"), Key: key, Exclusive: true},
	}
}

func (f *benchFile) openFile(b *testing.B) nfs4.StateID {
	_, id, status := f.OpenFile(f.session, &f.open, nil)
	if status != nfs4.OK {
		b.Error("OPEN is", status)
	}
	return id
}

func (f *benchFile) closeFile(b *testing.B, id nfs4.StateID) {
	if status := f.Close(f.session, &id); status != nfs4.OK {
		b.Error("CLOSE is", status)
	}
}

// lockAndUnlock locks a byte through an open, and unlocks it.
func (f *benchFile) lockAndUnlock(b *testing.B, open nfs4.StateID) {
	a := f.lock
	a.StateID = open
	id, _, status := f.Lock(f.session, &a)
	if status != nfs4.OK {
		b.Error("LOCK is", status)
	}
	if _, status := f.Unlock(f.session, &Lock{StateID: id, Key: a.Key, Range: a.Range}); status != nfs4.OK {
		b.Error("LOCKU is", status)
	}
}

// BenchmarkClients has 64 clients, each of which opens, locks, unlocks and closes its own
// file. With -cpu 2,16 -mutexprofile it shows what they contend for.
func BenchmarkClients(b *testing.B) {
	w := newTestState(manyGoroutines{b})
	var files [benchClients]*benchFile
	for i := range files {
		files[i] = newBenchFile(w, w.newTestClient(fmt.Sprint(i)), i)
	}
	var next atomic.Int64
	b.SetParallelism(max(benchClients/runtime.GOMAXPROCS(0), 1))
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		f := files[(next.Add(1)-1)%benchClients]
		for pb.Next() {
			id := f.openFile(b)
			f.lockAndUnlock(b, id)
			f.closeFile(b, id)
		}
	})
}

// BenchmarkOpenClose and BenchmarkLockUnlock have a single client.
func BenchmarkOpenClose(b *testing.B) {
	w := newTestState(manyGoroutines{b})
	f := newBenchFile(w, w.newTestClient("c"), 0)
	b.ReportAllocs()
	for b.Loop() {
		f.closeFile(b, f.openFile(b))
	}
}

func BenchmarkLockUnlock(b *testing.B) {
	w := newTestState(manyGoroutines{b})
	f := newBenchFile(w, w.newTestClient("c"), 0)
	id := f.openFile(b)
	b.ReportAllocs()
	for b.Loop() {
		f.lockAndUnlock(b, id)
	}
}
