package stream_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"testing"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/stream"
)

// A poem is the Upper-Layer Binding for a program with one procedure without
// arguments. The results are a word and an opaque item with at most 4096 bytes,
// which may go to the caller's memory.
type poem struct{}

func (poem) Program() (prog, vers uint32)               { return 0x20000001, 1 }
func (poem) ArgItem(uint32, []byte) (start, n int)      { return 0, 0 }
func (poem) MaxResults(uint32, []byte) (rest, item int) { return 8, 4096 }
func (poem) ResultItem(_ uint32, results []byte) (start, n int) {
	if len(results) < 8 {
		return 0, 0
	}
	return 8, int(binary.BigEndian.Uint32(results[4:]))
}

// serveTCP is a server that does not know RDMA. It answers every call with the
// number 7 and two lines.
func serveTCP(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			in := bufio.NewReader(c)
			for {
				var start [8]byte // the record's mark, and the XID
				if _, err := io.ReadFull(in, start[:]); err != nil {
					return
				}
				mark := binary.BigEndian.Uint32(start[:])
				if _, err := io.CopyN(io.Discard, in, int64(mark&^(1<<31)-4)); err != nil {
					return
				}
				const text = "so much depends\nupon\n\x00\x00\x00" // the last three are padding
				b := []byte{0x80, 0, 0, 0}
				b = append(b, start[4:]...)
				for _, v := range []uint32{1, 0, 0, 0, 0, 7, uint32(len(text) - 3)} {
					b = binary.BigEndian.AppendUint32(b, v)
				}
				b = append(b, text...)
				b[3] = byte(len(b) - 4)
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		}()
	}
}

// An ONC RPC server for TCP serves RPC-over-RDMA without knowing.
func ExampleListen() {
	provider := listen() // package iwarp has one over TCP
	l := stream.Listen(provider, poem{})
	l.Server.MaxPayload = 64 << 10
	defer l.Close()
	go serveTCP(l)

	client, err := rpcrdma.DialConn(context.Background(), provider, "", rpcrdma.ClientConnConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	page := make([]byte, 4096) // the item's destination
	x := oncrpc.Exchange{Prog: 0x20000001, Vers: 1, Proc: 1, MaxResults: 8, Sink: page}
	if err := client.Call(context.Background(), &x); err != nil {
		log.Fatal(err)
	}
	fmt.Println(x.Results.Uint32())
	fmt.Printf("%s", x.Results.Item(len(page)))
	fmt.Printf("%s", page[:15])
	x.Release()
	// Output:
	// 7
	// so much depends
	// upon
	// so much depends
}

// A memory is a provider in memory.
type memory struct{ *rdmatest.Listener }

func listen() memory { return memory{rdmatest.Listen(quiet{})} }

func (m memory) Dial(ctx context.Context, _ string, c rdma.ConnConfig) (rdma.Conn, error) {
	return m.Listener.Dial(ctx, c)
}

// A quiet stands in for the test that the provider requires.
type quiet struct{ testing.TB }

func (quiet) Cleanup(func()) {}
func (quiet) Helper()        {}
