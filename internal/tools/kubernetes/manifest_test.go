// Package kubernetes has a test of contrib/container/kubernetes.yaml. It stands beside the
// tools, because the module itself needs nothing of Kubernetes.
package kubernetes

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// manifest are the objects of the file, one of each kind.
type manifest struct {
	config  *corev1.ConfigMap
	service *corev1.Service
	set     *appsv1.StatefulSet
	policy  *networkingv1.NetworkPolicy
}

// parse reads the objects as an API server with strict validation does: it refuses unknown
// kinds, unknown and repeated fields, and values of a wrong type.
func parse(text []byte) (*manifest, error) {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(corev1.AddToScheme, appsv1.AddToScheme, networkingv1.AddToScheme)
	if err := builder.AddToScheme(scheme); err != nil {
		return nil, err
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	m := new(manifest)
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		object, kind, err := strict.Decode(document, nil, nil)
		if err != nil {
			return nil, err
		}
		switch o := object.(type) {
		case *corev1.ConfigMap:
			m.config = o
		case *corev1.Service:
			m.service = o
		case *appsv1.StatefulSet:
			m.set = o
		case *networkingv1.NetworkPolicy:
			m.policy = o
		default:
			return nil, fmt.Errorf("%s is not expected", kind)
		}
	}
	if m.config == nil || m.service == nil || m.set == nil || m.policy == nil {
		return nil, errors.New("the file lacks an object")
	}
	return m, nil
}

// faults are errors that do not keep a check from going on.
type faults []error

func (f *faults) add(form string, args ...any) { *f = append(*f, fmt.Errorf(form, args...)) }

// check reports what no schema does: references between the objects that lead nowhere.
func (m *manifest) check() error {
	var f faults
	m.checkSelectors(&f)
	m.checkPorts(&f)
	m.checkVolumes(&f)
	return errors.Join(f...)
}

func (m *manifest) container() corev1.Container { return m.set.Spec.Template.Spec.Containers[0] }

func (m *manifest) checkSelectors(f *faults) {
	own := labels.Set(m.set.Spec.Template.Labels)
	if s, err := metav1.LabelSelectorAsSelector(m.set.Spec.Selector); err != nil || s.Empty() || !s.Matches(own) {
		f.add("the StatefulSet does not select its Pods")
	}
	if s, err := metav1.LabelSelectorAsSelector(&m.policy.Spec.PodSelector); err != nil || s.Empty() || !s.Matches(own) {
		f.add("the NetworkPolicy does not select the Pods")
	}
	if s := m.service.Spec.Selector; len(s) == 0 || !labels.SelectorFromSet(s).Matches(own) {
		f.add("the Service does not select the Pods")
	}
	if m.set.Spec.ServiceName != m.service.Name {
		f.add("the StatefulSet is of service %q, and the Service is %q", m.set.Spec.ServiceName, m.service.Name)
	}
}

// checkPorts finds each port in the container. A port of the Service without a target has
// the container's number.
func (m *manifest) checkPorts(f *faults) {
	container := m.container()
	byName := make(map[string]int32)
	for _, p := range container.Ports {
		if _, ok := byName[p.Name]; ok || p.Name == "" {
			f.add("the name of port %d is not its own", p.ContainerPort)
		}
		byName[p.Name] = p.ContainerPort
	}
	has := func(p intstr.IntOrString) bool {
		if p.Type == intstr.String {
			return byName[p.StrVal] != 0
		}
		for _, n := range byName {
			if n == p.IntVal {
				return true
			}
		}
		return false
	}
	for _, p := range m.service.Spec.Ports {
		if p.TargetPort != (intstr.IntOrString{}) && !has(p.TargetPort) || p.TargetPort == (intstr.IntOrString{}) && byName[p.Name] != p.Port {
			f.add("the container has no port %s %d of the Service", p.Name, p.Port)
		}
		if !slices.ContainsFunc(m.policy.Spec.Ingress, func(rule networkingv1.NetworkPolicyIngressRule) bool {
			return slices.ContainsFunc(rule.Ports, func(open networkingv1.NetworkPolicyPort) bool {
				return open.Port != nil && open.Port.IntVal == byName[p.Name] && open.Protocol != nil && *open.Protocol == corev1.ProtocolTCP
			})
		}) {
			f.add("the NetworkPolicy does not let port %s in", p.Name)
		}
	}
	for _, rule := range m.policy.Spec.Ingress {
		for _, open := range rule.Ports {
			if open.Port == nil || !has(*open.Port) {
				f.add("the container has no port %s of the NetworkPolicy", open.Port)
			}
		}
	}
	if metrics := m.flag("--metrics", f); metrics != ":"+strconv.Itoa(int(byName["metrics"])) {
		f.add("the container's port for --metrics %s is %d", metrics, byName["metrics"])
	}
	probes := map[string]*corev1.Probe{"readiness": container.ReadinessProbe, "liveness": container.LivenessProbe}
	for name, probe := range probes {
		switch {
		case probe == nil:
			f.add("the container has no %s probe", name)
		case probe.HTTPGet != nil && !has(probe.HTTPGet.Port):
			f.add("the container has no port %s of the %s probe", &probe.HTTPGet.Port, name)
		case probe.TCPSocket != nil && !has(probe.TCPSocket.Port):
			f.add("the container has no port %s of the %s probe", &probe.TCPSocket.Port, name)
		case probe.HTTPGet == nil && probe.TCPSocket == nil:
			f.add("the %s probe probes nothing", name)
		}
	}
}

// flag returns the value of a flag of the container's arguments.
func (m *manifest) flag(name string, f *faults) string {
	args := m.container().Args
	i := slices.Index(args, name)
	if i < 0 || i+1 == len(args) {
		f.add("the arguments lack %s", name)
		return ""
	}
	return args[i+1]
}

// checkVolumes finds each volume, and what the arguments and the exports name on it.
func (m *manifest) checkVolumes(f *faults) {
	pod := m.set.Spec.Template
	volumes := make(map[string]bool)
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
		if v.ConfigMap == nil || v.ConfigMap.Name != m.config.Name {
			f.add("volume %s has another ConfigMap", v.Name)
		}
	}
	for _, claim := range m.set.Spec.VolumeClaimTemplates {
		volumes[claim.Name] = true
	}
	mounted := make(map[string]string) // the volume by path
	for _, mount := range m.container().VolumeMounts {
		mounted[mount.MountPath] = mount.Name
		if !volumes[mount.Name] {
			f.add("no volume is named %s", mount.Name)
		}
		delete(volumes, mount.Name)
	}
	for name := range volumes {
		f.add("volume %s is not mounted", name)
	}
	if state := m.flag("--state", f); mounted[state] == "" {
		f.add("no volume is mounted at --state %s", state)
	}
	file := m.flag("--exports", f)
	if name := mounted[path.Dir(file)]; name == "" || !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name }) {
		f.add("the ConfigMap is not mounted at the directory of --exports %s", file)
	}
	exports := strings.Fields(m.config.Data[path.Base(file)])
	if len(exports) == 0 || mounted[exports[0]] == "" {
		f.add("the ConfigMap has no %s that exports the path of a volume", path.Base(file))
	}
}

func parseAndCheck(text []byte) error {
	m, err := parse(text)
	if err != nil {
		return err
	}
	return m.check()
}

func TestManifest(t *testing.T) {
	text, err := os.ReadFile("../../../contrib/container/kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := parseAndCheck(text); err != nil {
		t.Fatal(err)
	}
	for _, fault := range []struct{ old, new, want string }{
		{"terminationGracePeriodSeconds", "terminationGraceSeconds", "unknown field"},
		{"readOnlyRootFilesystem", "readonlyRootFilesystem", "unknown field"},
		{"replicas: 1", "replicas: one", "cannot unmarshal"},
		{"containerPort: 2049", `containerPort: "2049"`, "cannot unmarshal"},
		{"storage: 10Gi", "storage: much", "quantities must match"},
		{"replicas: 1", "replicas: 1\n  replicas: 2", "already set"},
		{"kind: StatefulSet", "kind: StatefulSets", "no kind"},
		{"matchLabels: {app: nfsrdmad}\n  template", "matchLabels: {app: nfsrdma}\n  template", "StatefulSet does not select"},
		{"matchLabels: {app: nfsrdmad}\n  policy", "matchLabels: {app: nfsrdma}\n  policy", "NetworkPolicy does not select"},
		{"selector: {app: nfsrdmad}", "selector: {app: nfsrdma}", "Service does not select"},
		{"serviceName: nfsrdmad", "serviceName: nfsrdma", "the Service is"},
		{"{name: nfs, port: 2049}", "{name: nfs, port: 2050}", "no port nfs 2050 of the Service"},
		{"{protocol: TCP, port: 2049}", "{protocol: TCP, port: 2050}", "does not let port nfs in"},
		{"{protocol: TCP, port: 2049}", "{protocol: UDP, port: 2049}", "does not let port nfs in"},
		{"port: metrics}", "port: metric}", "no port metric of the readiness probe"},
		{"tcpSocket: {port: nfs}", "tcpSocket: {port: tcp}", "no port tcp of the liveness probe"},
		{`":9849"`, `":9850"`, "--metrics :9850 is 9849"},
		{"{name: state, mountPath", "{name: states, mountPath", "no volume is named states"},
		{"mountPath: /var/lib/nfsrdmad", "mountPath: /var/lib/nfsrdma", "at --state"},
		{"mountPath: /etc/nfsrdma,", "mountPath: /etc,", "directory of --exports"},
		{"configMap: {name: nfsrdmad}", "configMap: {name: exports}", "another ConfigMap"},
		{"/data *(", "/date *(", "exports the path of a volume"},
	} {
		if n := strings.Count(string(text), fault.old); n != 1 {
			t.Errorf("%q is %d times in the manifest", fault.old, n)
			continue
		}
		err := parseAndCheck([]byte(strings.Replace(string(text), fault.old, fault.new, 1)))
		if err == nil || !strings.Contains(err.Error(), fault.want) {
			t.Errorf("with %q in the place of %q: %v; want %q", fault.new, fault.old, err, fault.want)
		}
	}
}
