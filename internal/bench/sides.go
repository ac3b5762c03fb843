package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A cpuPlacement selects the CPUs for server and client.
type cpuPlacement struct{ server, client int }

var (
	unpinned = cpuPlacement{anyCPU, anyCPU}
	sameCPU  = cpuPlacement{0, 0}
	twoCPUs  = cpuPlacement{0, 1}
)

// rawTCP measures raw TCP with a process in the role tcpclient.
func rawTCP(at cpuPlacement, what string) sideFunc {
	return func(w *testbed) (*result, error) {
		s, err := w.ensureTCPServer(at.server)
		if err != nil {
			return nil, err
		}
		return w.runRole(s, at.client, "tcpclient", s.addr, what, w.opts.time.String())
	}
}

// storedStream measures a stream that its receiver writes over an existing file.
func storedStream(w *testbed) (*result, error) { return rawTCP(unpinned, "stored*"+w.path("over"))(w) }

// pingPongs measures a ping-pong on each busy connection, with idle ones open.
func pingPongs(busy, all int) sideFunc {
	return func(w *testbed) (*result, error) {
		s, err := w.ensureServer("pongserver", func() (*server, error) {
			return startServer(w.ctx, anyCPU, "tcp", w.self, roleWord, "pongserver")
		})
		if err != nil {
			return nil, err
		}
		return w.runRole(s, anyCPU, "pongclient", s.addr, fmt.Sprintf("%d/%d", busy, all), w.opts.time.String())
	}
}

// getattrs measures GETATTR on each busy connection, with idle ones open.
func getattrs(busy, all int) sideFunc {
	return mountBenchWith([]string{manyConnections}, unpinned, "big", "getattr", "1", 1, fmt.Sprint("--connections=", busy), fmt.Sprint("--idle=", all-busy))
}

// minimalGetattrs measures the same as getattrs, with clients that cost no more
// than ping-pong clients.
func minimalGetattrs(busy, all int) sideFunc {
	return func(w *testbed) (*result, error) {
		s, err := w.ensureNfsrdmad(anyCPU, manyConnections)
		if err != nil {
			return nil, err
		}
		return w.runRole(s, anyCPU, "callclient", s.addr, exportName, fmt.Sprintf("%d/%d", busy, all), w.opts.time.String())
	}
}

// manyConnections makes nfsrdmad accept 10,000 connections from one host.
const manyConnections = "--max-connections=12000"

// mountBench runs mountrdma bench, with flags. Flags that also concern the server
// are passed to both ends.
func mountBench(at cpuPlacement, file, op, size string, depth int, flags ...string) sideFunc {
	return mountBenchWith(nil, at, file, op, size, depth, flags...)
}

// mountBenchWith runs mountrdma bench, with the server flags own and client flags.
func mountBenchWith(own []string, at cpuPlacement, file, op, size string, depth int, flags ...string) sideFunc {
	return func(w *testbed) (*result, error) {
		both := slices.Clone(own)
		for _, f := range flags {
			if strings.HasPrefix(f, "--crc=") {
				both = append(both, f)
			}
		}
		s, err := w.ensureNfsrdmad(at.server, both...)
		if err != nil {
			return nil, err
		}
		return mountBenchAt(s, at.client, file, op, size, depth, flags...)(w)
	}
}

// mountBenchAt runs mountrdma bench against a server, on a CPU, with flags.
func mountBenchAt(s *server, cpu int, file, op, size string, depth int, flags ...string) sideFunc {
	return func(w *testbed) (*result, error) {
		args := []string{"bench", exportURL(s, file), "--json", "--op", op, "--block", size, "--depth", strconv.Itoa(depth)}
		args = append(args, flags...)
		run := func(d time.Duration) (*result, error) {
			return runClient(w.ctx, s, cpu, w.programPath("mountrdma"), append(args, "--time", d.String())...)
		}
		if _, err := run(warmUpTime(op, w.opts.time)); err != nil {
			return nil, err
		}
		return run(w.opts.time)
	}
}

// warmUpTime returns the time for which calls are sent before they are measured, so
// that both ends' memory is resident: a virtual machine returns freed memory to its
// host, which provides it again slowly. READs warm up for as long as they are
// measured: the server drops idle mappings, and TCP's sender starts with a
// populated one.
func warmUpTime(op string, measured time.Duration) time.Duration {
	if op == "read" {
		return measured
	}
	return measured / 4
}

// localRole runs a role that uses exported files locally.
func localRole(role, name string) sideFunc {
	return func(w *testbed) (*result, error) {
		return w.runRole(nil, anyCPU, role, w.path(name), w.opts.time.String())
	}
}

// roleOnMount runs a role on a file in our mount.
func roleOnMount(role, file, how string) sideFunc {
	return roleOnPoint((*testbed).mountExport, role, file, how)
}

// roleOnMemFS runs a role on a file in memfs.
func roleOnMemFS(role, file, how string) sideFunc {
	return roleOnPoint((*testbed).mountMemFS, role, file, how)
}

// roleOnTCPFS runs a role on a file in tcpfs.
func roleOnTCPFS(role, file, how string) sideFunc {
	return roleOnPoint((*testbed).mountTCPFS, role, file, how)
}

func roleOnPoint(mount func(*testbed) (string, error), role, file, how string) sideFunc {
	return func(w *testbed) (*result, error) {
		point, err := mount(w)
		if err != nil {
			return nil, err
		}
		return w.runRole(nil, anyCPU, role, filepath.Join(point, file), how, w.opts.time.String())
	}
}

// reopenCached reopens files that a mount with these options has cached. away is
// the added round-trip time to the server, and only the server's own process
// changes the files.
func reopenCached(away time.Duration, options ...string) sideFunc {
	return func(w *testbed) (*result, error) {
		point, err := w.mountExclusive(away, options)
		if err != nil {
			return nil, err
		}
		if _, err := w.reopenFiles(filepath.Join(point, pagesDir), 0); err != nil { // the first time
			return nil, err
		}
		return w.countCalls(func() (*result, error) { return w.reopenFiles(filepath.Join(point, pagesDir), w.opts.time) })
	}
}

// reopenedInMemory reopens a pagefs's files.
func reopenedInMemory(w *testbed) (*result, error) {
	point, err := w.mountLimitFS(pagePoint, strconv.Itoa(directories[pagesDir].files))
	if err == nil {
		_, err = w.reopenFiles(point, 0)
	}
	if err != nil {
		return nil, err
	}
	return w.reopenFiles(point, w.opts.time)
}

// reopenFiles repeatedly opens the files in a directory like pagesDir; if d is 0,
// each once.
func (w *testbed) reopenFiles(dir string, d time.Duration) (*result, error) {
	return w.runRole(nil, anyCPU, "reopener", dir, strconv.Itoa(directories[pagesDir].files), d.String())
}

// repeatJob measures a job's second run. The mount may use cached state only if it
// knows that the state is still valid.
func repeatJob(j *job, away time.Duration, options ...string) sideFunc {
	return func(w *testbed) (*result, error) {
		dir, err := w.prepareJob(j)
		if err != nil {
			return nil, err
		}
		point, err := w.mountExclusive(away, options)
		if err != nil {
			return nil, err
		}
		dir = filepath.Join(point, dir)
		if err := w.runScript(dir, j.repeat); err != nil {
			return nil, err
		}
		time.Sleep(attrCacheTime)
		return w.countCalls(func() (*result, error) {
			start := time.Now()
			err := w.runScript(dir, j.repeat)
			return &result{Seconds: time.Since(start).Seconds(), Ops: 1}, err
		})
	}
}

// mountExclusive returns mountrdma's mount point, with these options, for an export
// that only the server changes, with the added round-trip time away.
func (w *testbed) mountExclusive(away time.Duration, options []string) (string, error) {
	s, err := w.ensureNfsrdmad(anyCPU, "--exclusive", "--control", w.controlSocket())
	if err != nil {
		return "", err
	}
	at, err := w.delayServer(s, away)
	if err != nil {
		return "", err
	}
	return w.mountServer(fmt.Sprintf("exclusive-%v-%s", away, strings.Join(options, "-")), at, options...)
}

// controlSocket returns that server's control socket path.
func (w *testbed) controlSocket() string { return filepath.Join(w.dir, "control") }

// countCalls adds to a result how many calls the server received during run.
func (w *testbed) countCalls(run func() (*result, error)) (*result, error) {
	before, err := w.serverCalls()
	if err != nil {
		return nil, err
	}
	r, err := run()
	if err == nil {
		r.Calls, err = w.serverCalls()
		r.Calls -= before
	}
	return r, err
}

// serverCalls returns the number of calls that mountExclusive's server has
// answered.
func (w *testbed) serverCalls() (float64, error) {
	out, err := exec.CommandContext(w.ctx, w.programPath("nfsrdmad"), "status", "--json", "--control", w.controlSocket()).Output()
	if err != nil {
		return 0, err
	}
	var status struct {
		Procedures []struct{ Calls float64 }
	}
	if err := json.Unmarshal(out, &status); err != nil {
		return 0, err
	}
	sum := 0.0
	for _, p := range status.Procedures {
		sum += p.Calls
	}
	return sum, nil
}

// idleConnections returns the server's memory for each of n idle connections, next
// to a busy one. Each round starts a new server: one that has had connections
// before keeps memory for the next ones.
func idleConnections(n int) sideFunc {
	return func(w *testbed) (*result, error) {
		s, err := w.startNfsrdmad("rdma", anyCPU, "--log-level=warn", manyConnections)
		if err != nil {
			return nil, err
		}
		defer s.stop()
		run := func(n int) (*result, error) {
			var m memoryMeter
			defer m.startSampling(s, w.opts.time)()
			res, err := runClient(w.ctx, s, anyCPU, w.programPath("mountrdma"), "bench", exportURL(s, ""), "--json", "--op=null", "--depth=1", fmt.Sprint("--idle=", n), "--time", w.opts.time.String())
			if err == nil {
				res.Memory = m.lastMedian()
			}
			return res, err
		}
		alone, err := run(0)
		if err != nil {
			return nil, err
		}
		many, err := run(n)
		if err == nil {
			many.Memory = (many.Memory - alone.Memory) / float64(n)
		}
		return many, err
	}
}
