//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/model"
)

const (
	delegationLease = time.Second // short, so that some expire
	scheduleTime    = time.Second // for one schedule, without the final comparison
	schedules       = 2           // on each export,
	schedulesSoak   = 100         // in make soak
)

// TestDelegation does random operations on two mounts of mountrdma, which cache
// under delegations, on Linux's mount, which does not know delegations, and, if
// the export is not exclusive, in a process of the host. After a change by one
// of them, all others must see the change at their next open, even if they have
// lost their connection or were stopped for longer than a lease.
func TestDelegation(t *testing.T) {
	sharedGuest(t)
	dir := Served(t)
	exports := filepath.Join(t.TempDir(), "exports")
	require.NoError(t, os.WriteFile(exports, fmt.Appendf(nil, `%[1]s/exclusive *(rw,insecure,no_root_squash,exclusive)
%[1]s/ordinary *(rw,insecure,no_root_squash)
`, dir), 0o644))
	for _, name := range []string{"exclusive", "ordinary"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	control := filepath.Join(t.TempDir(), "control")
	d := serveExports(t, dir, exports, "--lease", delegationLease.String(), "--control", control)
	seed := uint64(time.Now().UnixNano())
	for name, play := range map[string]delegationWork{
		// Names and attributes are cached only while a delegation is held.
		"exclusive": {model.Sights(), model.Looks, []string{"actimeo=0"}},
		"ordinary":  {model.Files(), model.ContentLooks, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEstate(t, d, filepath.Join(dir, name), play.options)
			if name == "ordinary" {
				e.addMount("local", e.startPlayer(t, e.served), func() {})
			}
			n := schedules
			if os.Getenv("INTEROP_SOAK") != "" {
				n = schedulesSoak
			}
			before := statusOf(t, control).Grants
			for i := range n {
				e.runSchedule(t, play, seed+uint64(i), troubles[i%len(troubles)])
			}
			after := statusOf(t, control).Grants
			e.closeViews(t)
			t.Logf("%d operations held to the model, %d looks loose, %d connections; of all grants: %+v",
				e.held, e.loose, e.countConnections(), after)
			assert.Greater(t, after.Granted, before.Granted+n)
			assert.Greater(t, after.Recalled, before.Recalled+n)
		})
	}
}

// A delegationSetup is an export, mounted by two clients of this project behind relays,
// and by Linux.
type delegationSetup struct {
	*mountViews
	relays [2]*rdmaRelay

	schedules, held, loose int
}

func newEstate(t *testing.T, d *daemon, dir string, options []string) *delegationSetup {
	e := new(delegationSetup)
	s := d.guestSite()
	s.export, s.servedDir = dir, hostDir(dir)
	var shops [2]mountServer
	for i := range shops {
		e.relays[i] = newRelay(t, d.rdma, hiddenSupport{})
		shops[i] = mountServer{addr: e.relays[i].addr, guestSite: s}
	}
	e.mountViews = windowsOf(t, dir, shops, options, []string{coherent})
	for i := range e.fuse { // two programs on each
		e.addFUSE(t, i)
	}
	return e
}

func (e *delegationSetup) countConnections() int {
	return int(e.relays[0].conns.Load() + e.relays[1].conns.Load())
}

// A delegationWork is the work on an export.
type delegationWork struct {
	start   []model.Op // in each new directory
	source  func(seed uint64) *model.Source
	options []string // for this host's mounts
}

// runSchedule runs all work in new directories under one kind of trouble,
// alternately and concurrently.
func (e *delegationSetup) runSchedule(t *testing.T, play delegationWork, seed uint64, kind disturbance) {
	e.schedules++
	places := make([]*model.Place, 3)
	for i := range places {
		places[i] = &model.Place{Dir: fmt.Sprintf("%d-%d", e.schedules, i), Tree: model.NewTree()}
		require.NoError(t, os.Mkdir(filepath.Join(e.served, places[i].Dir), 0o755))
		for _, o := range play.start {
			places[i].Tree.Do(o)
			_, err := model.Within(model.Dir(e.served), places[i].Dir).Do(o)
			require.NoError(t, err)
		}
	}
	clock := e.newClock(t)
	end := kind.startDisturbance(e, seed)
	first := places[0]
	r := &model.Run{
		Seed: seed, Source: play.source(seed), Mounts: e.confineTo(first.Dir), Tree: first.Tree, Before: clock, Leave: knownWrong, Log: openTranscript(t),
	}
	errTurns := r.For(scheduleTime / 2)
	c := &model.Crowd{Seed: seed, Source: play.source, Mounts: e.mounts, Places: places, Before: clock, Leave: knownWrong}
	var errCrowd error
	if errTurns == nil {
		errCrowd = c.For(scheduleTime / 2)
	}
	end()
	require.NoError(t, errTurns, "%+v", kind)
	require.NoError(t, errCrowd, "%+v", kind)
	e.held += r.Done + int(c.Held.Load())
	e.loose += int(c.Loose.Load())
	var all sync.WaitGroup
	for _, m := range append(e.mounts, model.Mount{Name: "served", Player: model.Dir(e.served)}) {
		all.Go(func() {
			for _, p := range places {
				assert.NoError(t, p.Tree.Compare(model.Within(m, p.Dir)), "all of it, by %s, seed %d", m.Name, seed)
			}
		})
	}
	all.Wait()
}
