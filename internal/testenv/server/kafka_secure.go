package server

import (
	"fmt"
	"os"
	"strings"
)

// KafkaSecurity has a broker listen with TLS: once for clients that log in by
// SASL, once for those that show a certificate. A topic or group with ACLs is open only to
// whom they name, and to clients of the listener without TLS.
type KafkaSecurity struct {
	CertFile, KeyFile string // the broker's certificate and key, PEM, the key as PKCS #8
	CAFile            string // authority of clients' certificates, PEM
	User, Password    string // of PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512
}

// LoginBrokers returns the address for SASL over TLS.
func (s *Kafka) LoginBrokers() []string { return []string{address(s.login)} }

// CertificateBrokers returns the address for clients with a certificate.
func (s *Kafka) CertificateBrokers() []string { return []string{address(s.mutual)} }

// secureListeners continues the list of listeners.
func (s *Kafka) secureListeners() string {
	if s.opts.Security == nil {
		return ""
	}
	return ",LOGIN://" + address(s.login) + ",MUTUAL://" + address(s.mutual)
}

// users are the arguments with which the storage is formatted.
func (k *KafkaSecurity) users() []string {
	if k == nil {
		return nil
	}
	var args []string
	for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
		args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, k.User, k.Password))
	}
	return args
}

// config continues the broker's configuration.
func (k *KafkaSecurity) config() string {
	if k == nil {
		return ""
	}
	const jaas = "listener.name.login.%s.sasl.jaas.config=org.apache.kafka.common.security.%s required%s;\n"
	return "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n" +
		"super.users=User:ANONYMOUS\nallow.everyone.if.no.acl.found=true\n" +
		"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n" +
		"ssl.keystore.type=PEM\nssl.truststore.type=PEM\n" +
		"ssl.keystore.certificate.chain=" + inline(k.CertFile) + "\n" +
		"ssl.keystore.key=" + inline(k.KeyFile) + "\n" +
		"ssl.truststore.certificates=" + inline(k.CAFile) + "\n" +
		"listener.name.mutual.ssl.client.auth=required\n" +
		fmt.Sprintf(jaas, "plain", "plain.PlainLoginModule", fmt.Sprintf(" user_%s=%q", k.User, k.Password)) +
		fmt.Sprintf(jaas, "scram-sha-256", "scram.ScramLoginModule", "") +
		fmt.Sprintf(jaas, "scram-sha-512", "scram.ScramLoginModule", "")
}

// inline is a file's content as the value of a property. A file that cannot be
// read leaves it empty, which the broker refuses.
func inline(file string) string {
	data, _ := os.ReadFile(file)
	return strings.ReplaceAll(strings.TrimSpace(string(data)), "\n", "\\n")
}
