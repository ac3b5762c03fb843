package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// anyCPU lets the kernel choose the CPU.
const anyCPU = -1

// stopTime is the time that a server may take to exit.
const stopTime = 10 * time.Second

// A server is a process that has printed its ready line.
type server struct {
	cmd  *exec.Cmd
	addr string
}

// startOn starts a process on one CPU. A process inherits its CPU set from the
// thread that starts it.
func startOn(cpu int, cmd *exec.Cmd) error {
	if cpu == anyCPU {
		return cmd.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("CPU %d: %w", cpu, err)
	}
	err := cmd.Start()
	if again := unix.SchedSetaffinity(0, &before); err == nil {
		err = again
	}
	return err
}

// startServer starts a server and waits for its line that begins with "ready",
// in which word=ADDRESS gives its address.
func startServer(ctx context.Context, cpu int, word, name string, args ...string) (*server, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	cmd.WaitDelay = stopTime
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := startOn(cpu, cmd); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "ready") {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, fmt.Errorf("%s did not start: %s%s", cmd, line, errs.String())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	s := &server{cmd: cmd}
	for _, field := range strings.Fields(line) {
		if addr, ok := strings.CutPrefix(field, word+"="); ok {
			s.addr = addr
		}
	}
	return s, nil
}

// stop stops the server.
func (s *server) stop() {
	_ = s.cmd.Process.Signal(unix.SIGTERM)
	late := time.AfterFunc(stopTime, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	_ = s.cmd.Wait()
}

// cpuTime returns the CPU time that the server has used.
func (s *server) cpuTime() time.Duration { return cpuOf(s.cmd.Process.Pid) }

// residentBytes returns the server's resident memory in bytes.
func (s *server) residentBytes() float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			kib, _ := strconv.ParseFloat(f[1], 64)
			return kib * 1024
		}
	}
	return 0
}

// runClient runs a client, which uses s if not nil, until it exits, and parses the
// result that the client prints. A client prints as soon as its measured time is
// over, before it closes its connections.
func runClient(ctx context.Context, s *server, cpu int, name string, args ...string) (*result, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var u cpuUsage
	if s != nil {
		cmd.Stdout = u.endAtFirstByte(&out)
		defer u.startSampling(s.cpuTime)()
	}
	if err := startOn(cpu, cmd); err != nil {
		return nil, err
	}
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", cmd, err, errs.String())
	}
	var r result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return nil, fmt.Errorf("%s: %w", cmd, err)
	}
	if s != nil {
		r.Server = u.measuredSeconds(r.Seconds)
	}
	return &r, nil
}
