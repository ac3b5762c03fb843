package interop

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"time"
)

const serverLimit = 20 * time.Second // time for a server to become ready

// A Server is a running nfsrdmad.
type Server struct {
	*Process
	RDMA, TCP string // the server's addresses, host:port
}

// readyLine is the line that the server prints once it accepts connections.
var readyLine = regexp.MustCompile(`^ready\b.*\brdma=(\S+) tcp=(\S+)`)

// StartServer runs "program serve" with these arguments, which name both
// addresses, and waits for its ready line. The server's other output goes to
// log.
func StartServer(log io.Writer, program string, args ...string) (*Server, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd := exec.Command(program, append([]string{"serve"}, args...)...)
	cmd.Stdout, cmd.Stderr = w, log
	p, err := StartProcess(cmd)
	w.Close()
	if err != nil {
		return nil, err
	}
	line, err := "", r.SetReadDeadline(time.Now().Add(serverLimit))
	if err == nil {
		line, err = bufio.NewReader(r).ReadString('\n')
	}
	m := readyLine.FindStringSubmatch(line)
	if err == nil && m == nil {
		err = errors.New("it names no addresses")
	}
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("ready line %q of %s: %w", line, program, err)
	}
	return &Server{p, m[1], m[2]}, nil
}
