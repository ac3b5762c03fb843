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

// addClientOrders adds the flags that change clients' state to the command clients.
func addClientOrders(cmd *cobra.Command) *cobra.Command {
	var id clientID
	var endGrace bool
	list := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path := cmd.Flag("control").Value.String()
		switch {
		case id != 0:
			return sendOrder(cmd.Context(), path, "clients/expire?id="+id.String(), cmd.OutOrStdout())
		case endGrace:
			return sendOrder(cmd.Context(), path, "clients/end-grace", cmd.OutOrStdout())
		}
		return list(cmd, args)
	}
	f := cmd.Flags()
	f.Var(&id, "expire", "discard the client `ID` with its open files and locks")
	f.BoolVar(&endGrace, "end-grace", false, "end the grace period, in which clients may reclaim what they held before a restart")
	_ = cmd.RegisterFlagCompletionFunc("expire", completeClientID) // fails only for a flag that is missing
	checkArgs := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		given := 0
		for _, name := range []string{"json", "expire", "end-grace"} {
			if cmd.Flags().Changed(name) {
				given++
			}
		}
		switch {
		case given > 1:
			return errors.New("--json, --expire and --end-grace cannot be combined")
		case len(args) > 0 && (id != 0 || endGrace):
			return errors.New("--expire and --end-grace cannot be combined with the ID of a client to list")
		}
		return checkArgs(cmd, args)
	}
	return cmd
}

// A clientID is the value of a flag for a client's ID. 0 means none.
type clientID uint64

// Set parses the hexadecimal digits that the list of clients shows.
func (c *clientID) Set(s string) error {
	id, err := strconv.ParseUint(s, 16, 64)
	if err != nil || id == 0 {
		return errors.New("invalid client ID: use the first column of nfsrdmad clients")
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

// Type names the type in the help.
func (*clientID) Type() string { return "ID" }

// sendOrder sends an order to the daemon at a socket, and prints the response.
func sendOrder(ctx context.Context, path, what string, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	body, err := requestDaemon(ctx, path, http.MethodPost, what)
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(w, body)
	return err
}

// orderHandler returns a handler for an order: do returns a sentence about the result, or an
// error that names the remedy.
func orderHandler(do func(r *http.Request) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		done, err := do(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		fmt.Fprintln(w, done)
	}
}

// errNotStored reports that a change of the clients' state could not be stored.
var errNotStored = errors.New("the list of clients in the state directory cannot be written: free some space there, or check its disk")

// expireClient discards a client's state.
func (p *runningDaemon) expireClient(r *http.Request) (string, error) {
	var id clientID
	if err := id.Set(r.FormValue("id")); err != nil {
		return "", err
	}
	switch p.stateServer.Expire(uint64(id)) {
	case nfs4.OK:
		return fmt.Sprintf("client %s was discarded", &id), nil
	case nfs4.ErrStaleClientID:
		return "", fmt.Errorf("there is no client %s: nfsrdmad clients lists them", &id)
	}
	if p.stateServer.Counts().Failing {
		return "", errNotStored
	}
	return "", fmt.Errorf("a call of client %s is in progress: try again, or close the client's connections first", &id)
}

// endGracePeriod ends the grace period.
func (p *runningDaemon) endGracePeriod(*http.Request) (string, error) {
	g := p.stateServer.Grace()
	switch {
	case g.Clients == 0:
		return "there is no grace period", nil
	case !p.stateServer.EndGrace():
		return "", errNotStored
	}
	return fmt.Sprintf("the grace period has ended; clients that had not returned and lost what they held: %d", g.Clients), nil
}
