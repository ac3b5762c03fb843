package main

import "time"

// statusVersion is the version of the output of status --json. A new field does
// not change the version; a removed field or a changed meaning does.
const statusVersion = 1

// A statusDoc is the answer of the control socket and the output of status
// --json. docs/operations.md describes it. Times are RFC 3339's, lengths are in
// bytes.
type statusDoc struct {
	Version     int            `json:"version"`
	Daemon      daemonDoc      `json:"daemon"`
	Transports  []transportDoc `json:"transports"`
	Connections []connDoc      `json:"connections"`
	Exports     []exportDoc    `json:"exports"`
	Procedures  []procDoc      `json:"procedures"`
	Operations  []operationDoc `json:"nfs4_operations"`
	NFS4        *nfs4Doc       `json:"nfs4,omitempty"`
	ReplayCache replayDoc      `json:"replay_cache"`
	Grants      *grantsDoc     `json:"grants,omitempty"`
	Discovery   *discoveryDoc  `json:"discovery,omitempty"`
	Trace       *traceDoc      `json:"trace,omitempty"`
	Kerberos    *kerberosDoc   `json:"kerberos,omitempty"`
	TLS         *tlsDoc        `json:"tls,omitempty"`
}

type daemonDoc struct {
	Version string    `json:"version"`
	PID     int       `json:"pid"`
	UID     int       `json:"uid"`
	State   string    `json:"state"` // serving or draining
	Since   time.Time `json:"since"`
}

type memoryDoc struct {
	Name  string `json:"name"` // its purpose
	InUse int64  `json:"in_use"`
	Limit int64  `json:"limit"`
}

type transportDoc struct {
	Name         string         `json:"name"` // rdma or tcp
	Address      string         `json:"address"`
	Connections  connectionsDoc `json:"connections"`
	WaitingCalls int            `json:"waiting_calls"` // for memory
	Memory       []memoryDoc    `json:"memory"`
	RDMA         *deviceDoc     `json:"rdma,omitempty"`
}

type connectionsDoc struct {
	Now      int    `json:"now"`
	Total    uint64 `json:"total"`
	Refused  uint64 `json:"refused"`
	Replaced uint64 `json:"replaced"`
	Stalled  uint64 `json:"stalled"`
}

// deviceDoc has the facts of the RDMA transport alone.
type deviceDoc struct {
	ErrVers            uint64         `json:"err_vers"`
	ErrChunk           uint64         `json:"err_chunk"`
	Dropped            uint64         `json:"dropped"`
	TerminatesSent     []terminateDoc `json:"terminates_sent"`
	TerminatesReceived []terminateDoc `json:"terminates_received"`
	FPDUsSent          uint64         `json:"fpdus_sent"`
	FPDUsReceived      uint64         `json:"fpdus_received"`
	Regions            int            `json:"regions"`
	RegionBytes        uint64         `json:"region_bytes"`
	RegionOctets       uint64         `json:"region_octets"` // the older name of the same value
}

type terminateDoc struct {
	Layer uint8  `json:"layer"`
	Type  uint8  `json:"type"`
	Code  uint8  `json:"code"`
	Name  string `json:"name"`
	Count uint64 `json:"count"`
}

// trafficDoc is the bytes received and sent. octets_in and octets_out are the
// older names of the same values.
type trafficDoc struct {
	BytesIn   uint64 `json:"bytes_in"`
	BytesOut  uint64 `json:"bytes_out"`
	OctetsIn  uint64 `json:"octets_in"`
	OctetsOut uint64 `json:"octets_out"`
}

func newTrafficDoc(in, out uint64) trafficDoc { return trafficDoc{in, out, in, out} }

type connDoc struct {
	Transport     string      `json:"transport"`
	Peer          string      `json:"peer"`
	Since         time.Time   `json:"since"`
	Calls         uint64      `json:"calls"`
	CallsUnderWay int         `json:"calls_under_way"`
	Security      securityDoc `json:"security"`
	trafficDoc
	RDMA *rdmaConnDoc `json:"rdma,omitempty"`
}

// rdmaConnDoc has the parameters that the two ends of a connection negotiated.
type rdmaConnDoc struct {
	MPARevision        int           `json:"mpa_revision"`
	CRC                bool          `json:"crc"`
	MarkersSent        bool          `json:"markers_sent"`
	MarkersReceived    bool          `json:"markers_received"`
	PeerToPeer         bool          `json:"peer_to_peer"`
	IRD                int           `json:"ird"`
	ORD                int           `json:"ord"`
	InlineSend         int           `json:"inline_send"`
	InlineReceive      int           `json:"inline_receive"`
	RemoteInvalidation bool          `json:"remote_invalidation"`
	CreditsGranted     int           `json:"credits_granted"`
	FPDUsSent          uint64        `json:"fpdus_sent"`
	FPDUsReceived      uint64        `json:"fpdus_received"`
	Extensions         extensionsDoc `json:"extensions"`
}

type extensionsDoc struct {
	Client        bool `json:"client"` // the client runs this project
	ImmediateData int  `json:"immediate_data"`
	Atomics       bool `json:"atomics"`
	Delegation    bool `json:"delegation"`
	Grants        int  `json:"grants"` // in force
}

type exportDoc struct {
	Path    string   `json:"path"`
	Clients []string `json:"clients"` // with their options, as in exports(5)
}

type procDoc struct {
	Program   string `json:"program"`
	Procedure string `json:"procedure"`
	Calls     uint64 `json:"calls"`
	trafficDoc
	Seconds float64      `json:"seconds"` // of all calls together
	Latency []latencyDoc `json:"latency"`
	Errors  []errorDoc   `json:"errors"`
}

// operationDoc is an operation of version 4. A COMPOUND has several, and its
// call is counted once more among the procedures.
type operationDoc struct {
	Operation string              `json:"operation"`
	Count     uint64              `json:"count"`
	Errors    []operationErrorDoc `json:"errors"`
}

// nfs4Doc counts the state of the clients of version 4.
type nfs4Doc struct {
	Clients     int     `json:"clients"` // confirmed and not
	Unconfirmed int     `json:"unconfirmed"`
	Sessions    int     `json:"sessions"`
	Opens       int     `json:"opens"`
	Locks       int     `json:"locks"`
	Delegations int     `json:"delegations"`
	Writes      int     `json:"write_delegations"`   // of these, those for writing
	Granted     uint64  `json:"delegations_granted"` // so far, as the next two
	Recalled    uint64  `json:"delegations_recalled"`
	Revoked     uint64  `json:"delegations_revoked"` // not returned in time, or of an export that has gone
	ReplyBytes  int64   `json:"reply_bytes"`         // that the slots of all sessions can keep
	ReplyLimit  int64   `json:"reply_limit"`
	Recorded    int     `json:"recorded"`      // clients that can reclaim after a restart
	Failing     bool    `json:"failing"`       // nothing is opened or locked, because these cannot be recorded
	Grace       int     `json:"grace_clients"` // clients that may reclaim since the last restart
	GraceLeft   float64 `json:"grace_seconds"`
}

type operationErrorDoc struct {
	Name  string `json:"name"`
	Count uint64 `json:"count"`
}

type latencyDoc struct {
	Seconds float64 `json:"le_seconds"` // upper bound; 0: none
	Calls   uint64  `json:"calls"`
}

type errorDoc struct {
	Name  string `json:"name"`
	Calls uint64 `json:"calls"`
}

type replayDoc struct {
	Replies   int    `json:"replies"`
	Bytes     int64  `json:"bytes"`
	Octets    int64  `json:"octets"` // the older name of the same value
	Executed  uint64 `json:"executed"`
	Replayed  uint64 `json:"replayed"`
	Joined    uint64 `json:"joined"`
	Forgotten uint64 `json:"forgotten"`
}

// discoveryDoc has the counters of --discover.
type discoveryDoc struct {
	Address    string `json:"address"`
	Boot       string `json:"boot"` // hexadecimal
	Clients    int    `json:"clients"`
	Monitors   int    `json:"monitors"`
	Queries    uint64 `json:"queries"`
	Registered uint64 `json:"registered"`
	Watched    uint64 `json:"watched"`
	Refused    uint64 `json:"refused"`
	Dropped    uint64 `json:"dropped"`
	Notices    uint64 `json:"notices"`
	Updates    uint64 `json:"updates"`
}
