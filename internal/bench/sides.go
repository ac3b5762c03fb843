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

// A place is the CPUs of server and client.
type place struct{ server, client int }

var (
	free     = place{anyCPU, anyCPU}
	together = place{0, 0}
	across   = place{0, 1}
)

// tcp is raw TCP: the performance of a tcpClient.
func tcp(at place, what string) side {
	return func(w *world) (*result, error) {
		s, err := w.tcpServer(at.server)
		if err != nil {
			return nil, err
		}
		return w.role(s, at.client, "tcpclient", s.addr, what, w.o.time.String())
	}
}

// stored is a stream that its receiver writes over an existing file.
func stored(w *world) (*result, error) { return tcp(free, "stored*"+w.path("over"))(w) }

// pingPongs is a ping-pong on each of the busy connections, beside idle ones.
func pingPongs(busy, all int) side {
	return func(w *world) (*result, error) {
		s, err := w.server("pongserver", func() (*server, error) {
			return startServer(w.ctx, anyCPU, "tcp", w.self, roleWord, "pongserver")
		})
		if err != nil {
			return nil, err
		}
		return w.role(s, anyCPU, "pongclient", s.addr, fmt.Sprintf("%d/%d", busy, all), w.o.time.String())
	}
}

// getattrs is GETATTR on each of the busy connections, beside idle ones.
func getattrs(busy, all int) side {
	return benchOf([]string{manyConnections}, free, "big", "getattr", "1", 1, fmt.Sprint("--connections=", busy), fmt.Sprint("--idle=", all-busy))
}

// bareGetattrs is getattrs by clients that cost no more than those of pingPongs.
func bareGetattrs(busy, all int) side {
	return func(w *world) (*result, error) {
		s, err := w.nfsrdmad(anyCPU, manyConnections)
		if err != nil {
			return nil, err
		}
		return w.role(s, anyCPU, "callclient", s.addr, exportName, fmt.Sprintf("%d/%d", busy, all), w.o.time.String())
	}
}

// manyConnections makes nfsrdmad take 10,000 connections of one host.
const manyConnections = "--max-connections=12000"

// bench is mountrdma bench, with flags. Flags that concern the server too go to
// both ends.
func bench(at place, file, op, size string, depth int, flags ...string) side {
	return benchOf(nil, at, file, op, size, depth, flags...)
}

// benchOf is bench with flags of the server's own.
func benchOf(own []string, at place, file, op, size string, depth int, flags ...string) side {
	return func(w *world) (*result, error) {
		both := slices.Clone(own)
		for _, f := range flags {
			if strings.HasPrefix(f, "--crc=") {
				both = append(both, f)
			}
		}
		s, err := w.nfsrdmad(at.server, both...)
		if err != nil {
			return nil, err
		}
		return benchAt(s, at.client, file, op, size, depth, flags...)(w)
	}
}

// benchAt is mountrdma bench on a CPU, with flags, at a server.
func benchAt(s *server, cpu int, file, op, size string, depth int, flags ...string) side {
	return func(w *world) (*result, error) {
		args := []string{"bench", url(s, file), "--json", "--op", op, "--block", size, "--depth", strconv.Itoa(depth)}
		args = append(args, flags...)
		run := func(d time.Duration) (*result, error) {
			return client(w.ctx, s, cpu, w.program("mountrdma"), append(args, "--time", d.String())...)
		}
		if _, err := run(warming(op, w.o.time)); err != nil {
			return nil, err
		}
		return run(w.o.time)
	}
}

// warming returns how long calls are made before they are measured, so that the memory of
// both ends is there: a virtual machine gives memory that was freed back to its
// host, which returns it slowly. READs are made as long as measured: the server drops
// idle mappings, and TCP's sender starts with a populated one.
func warming(op string, measured time.Duration) time.Duration {
	if op == "read" {
		return measured
	}
	return measured / 4
}

// local is a role that uses exported files locally.
func local(role, name string) side {
	return func(w *world) (*result, error) {
		return w.role(nil, anyCPU, role, w.path(name), w.o.time.String())
	}
}

// ofMount is a role with a file of our mount.
func ofMount(role, file, how string) side { return ofPoint((*world).mount, role, file, how) }

// ofMemFS is a role with a file of memfs.
func ofMemFS(role, file, how string) side { return ofPoint((*world).memFS, role, file, how) }

// ofTCPFS is a role with a file of tcpfs.
func ofTCPFS(role, file, how string) side { return ofPoint((*world).tcpFS, role, file, how) }

func ofPoint(mount func(*world) (string, error), role, file, how string) side {
	return func(w *world) (*result, error) {
		point, err := mount(w)
		if err != nil {
			return nil, err
		}
		return w.role(nil, anyCPU, role, filepath.Join(point, file), how, w.o.time.String())
	}
}

// reopened opens files again that a mount with these options has cached. The
// server is away, and only the server's own process changes the files.
func reopened(away time.Duration, options ...string) side {
	return func(w *world) (*result, error) {
		point, err := w.exclusive(away, options)
		if err != nil {
			return nil, err
		}
		if _, err := w.reopen(filepath.Join(point, pages), 0); err != nil { // the first time
			return nil, err
		}
		return w.counted(func() (*result, error) { return w.reopen(filepath.Join(point, pages), w.o.time) })
	}
}

// reopenedInMemory opens files of a pageFS again.
func reopenedInMemory(w *world) (*result, error) {
	point, err := w.limitFS(pagePoint, strconv.Itoa(directories[pages].files))
	if err == nil {
		_, err = w.reopen(point, 0)
	}
	if err != nil {
		return nil, err
	}
	return w.reopen(point, w.o.time)
}

// reopen opens the files of a directory like pages again and again; with no time,
// each once.
func (w *world) reopen(dir string, d time.Duration) (*result, error) {
	return w.role(nil, anyCPU, "reopener", dir, strconv.Itoa(directories[pages].files), d.String())
}

// again does a job for the second time. The mount may use cached state only if
// it knows that the state is still valid.
func again(j *job, away time.Duration, options ...string) side {
	return func(w *world) (*result, error) {
		dir, err := w.job(j)
		if err != nil {
			return nil, err
		}
		point, err := w.exclusive(away, options)
		if err != nil {
			return nil, err
		}
		dir = filepath.Join(point, dir)
		if err := w.script(dir, j.again); err != nil {
			return nil, err
		}
		time.Sleep(believedAttributes)
		return w.counted(func() (*result, error) {
			start := time.Now()
			err := w.script(dir, j.again)
			return &result{Seconds: time.Since(start).Seconds(), Ops: 1}, err
		})
	}
}

// exclusive returns mountrdma's mount point, with these options, of an export
// that only the server changes, with the delay away.
func (w *world) exclusive(away time.Duration, options []string) (string, error) {
	s, err := w.nfsrdmad(anyCPU, "--exclusive", "--control", w.control())
	if err != nil {
		return "", err
	}
	at, err := w.delayer(s, away)
	if err != nil {
		return "", err
	}
	return w.mountOf(fmt.Sprintf("exclusive-%v-%s", away, strings.Join(options, "-")), at, options...)
}

// control returns the path of that server's socket.
func (w *world) control() string { return filepath.Join(w.dir, "control") }

// counted adds to a result the calls that the server got during run.
func (w *world) counted(run func() (*result, error)) (*result, error) {
	before, err := w.calls()
	if err != nil {
		return nil, err
	}
	r, err := run()
	if err == nil {
		r.Calls, err = w.calls()
		r.Calls -= before
	}
	return r, err
}

// calls returns the number of calls that the server of exclusive has answered.
func (w *world) calls() (float64, error) {
	out, err := exec.CommandContext(w.ctx, w.program("nfsrdmad"), "status", "--json", "--control", w.control()).Output()
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

// idle returns the server's cost of n idle connections, beside a busy one. Each
// round has a server of its own: one that has had connections before keeps
// memory for the next ones.
func idle(n int) side {
	return func(w *world) (*result, error) {
		s, err := w.freshNfsrdmad("rdma", anyCPU, "--log-level=warn", manyConnections)
		if err != nil {
			return nil, err
		}
		defer s.stop()
		run := func(n int) (*result, error) {
			var m meter
			defer m.watch(s, w.o.time)()
			res, err := client(w.ctx, s, anyCPU, w.program("mountrdma"), "bench", url(s, ""), "--json", "--op=null", "--depth=1", fmt.Sprint("--idle=", n), "--time", w.o.time.String())
			if err == nil {
				res.Memory = m.last()
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
