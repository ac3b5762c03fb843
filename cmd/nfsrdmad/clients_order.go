package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// ordersClients adds the flags to the command clients that change something.
func ordersClients(cmd *cobra.Command) *cobra.Command {
	var id clientID
	var endGrace bool
	list := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path := cmd.Flag("control").Value.String()
		switch {
		case id != 0:
			return order(cmd.Context(), path, "clients/expire?id="+id.String(), cmd.OutOrStdout())
		case endGrace:
			return order(cmd.Context(), path, "clients/end-grace", cmd.OutOrStdout())
		}
		return list(cmd, args)
	}
	f := cmd.Flags()
	f.Var(&id, "expire", "end the client `ID` with its open files and locks")
	f.BoolVar(&endGrace, "end-grace", false, "end the time in which clients may reclaim what they held before a restart")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if n := cmd.Flags().NFlag(); n > 1 && (n > 2 || !cmd.Flags().Changed("control")) {
			return errors.New("--json, --expire and --end-grace go alone")
		}
		return cobra.NoArgs(cmd, args)
	}
	return cmd
}

// A clientID is the ID of a client as the value of a flag. 0 is none.
type clientID uint64

// Set takes the hexadecimal digits that the list of clients has.
func (c *clientID) Set(s string) error {
	id, err := strconv.ParseUint(s, 16, 64)
	if err != nil || id == 0 {
		return errors.New("the ID of a client is in the first column of nfsrdmad clients")
	}
	*c = clientID(id)
	return nil
}

func (c *clientID) String() string {
	if *c == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", uint64(*c))
}

// Type names the type in help.
func (*clientID) Type() string { return "ID" }

// order sends an order to the daemon at a socket, and prints the answer.
func order(ctx context.Context, path, what string, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, orderTime)
	defer cancel()
	body, err := ask(ctx, path, http.MethodPost, what)
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(w, body)
	return err
}

// obey handles an order: do returns a sentence about the result, or an error that
// names the remedy.
func obey(do func(r *http.Request) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		done, err := do(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		fmt.Fprintln(w, done)
	}
}

// errNotStored says that a change of the clients' state is not on stable storage.
var errNotStored = errors.New("the list of clients in the state directory cannot be written: make room there, or check its disk")

// expire ends a client.
func (p *operations) expire(r *http.Request) (string, error) {
	var id clientID
	if err := id.Set(r.FormValue("id")); err != nil {
		return "", err
	}
	switch p.holders.Expire(uint64(id)) {
	case nfs4.OK:
		return fmt.Sprintf("client %s has ended", &id), nil
	case nfs4.ErrStaleClientID:
		return "", fmt.Errorf("there is no client %s: nfsrdmad clients lists them", &id)
	}
	if p.holders.Counts().Failing {
		return "", errNotStored
	}
	return "", fmt.Errorf("a call of client %s is under way: try again, or cut the client's connections first", &id)
}

// endGrace ends grace.
func (p *operations) endGrace(*http.Request) (string, error) {
	g := p.holders.Grace()
	switch {
	case g.Clients == 0:
		return "there is no grace", nil
	case !p.holders.EndGrace():
		return "", errNotStored
	}
	return fmt.Sprintf("grace has ended; clients that had not come back and lost what they held: %d", g.Clients), nil
}
