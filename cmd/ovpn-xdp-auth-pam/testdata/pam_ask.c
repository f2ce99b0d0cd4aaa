// SPDX-License-Identifier: Apache-2.0

// A PAM module for tests. Its arguments are done one after the other:
//   hide:PROMPT=ANSWER, show:PROMPT=ANSWER   ask, and refuse any other answer
//   info:TEXT                                tell
//   rhost:ADDRESS                            refuse any other PAM_RHOST
//   nonull:                                  refuse unless empty passwords are forbidden
//   acct:expired, acct:renew                 what the account is
#include <stdlib.h>
#include <string.h>

#include <security/pam_appl.h>
#include <security/pam_modules.h>

static int converse(pam_handle_t *pamh, int style, const char *text, char **answer)
{
	const struct pam_conv *conv;
	struct pam_message message = { .msg_style = style, .msg = text };
	const struct pam_message *messages[] = { &message };
	struct pam_response *response = NULL;
	int rc = pam_get_item(pamh, PAM_CONV, (const void **)&conv);

	if (rc == PAM_SUCCESS)
		rc = conv->conv(1, messages, &response, conv->appdata_ptr);
	if (rc != PAM_SUCCESS || !response)
		return PAM_CONV_ERR;
	*answer = response->resp;
	free(response);
	return PAM_SUCCESS;
}

static int ask(pam_handle_t *pamh, int style, const char *arg)
{
	char prompt[128], *answer = NULL;
	const char *equals = strchr(arg, '=');
	int rc;

	if (!equals || equals - arg >= (long)sizeof(prompt))
		return PAM_SERVICE_ERR;
	memcpy(prompt, arg, equals - arg);
	prompt[equals - arg] = 0;
	rc = converse(pamh, style, prompt, &answer);
	if (rc == PAM_SUCCESS && (!answer || strcmp(answer, equals + 1)))
		rc = PAM_AUTH_ERR;
	free(answer);
	return rc;
}

static int from_host(pam_handle_t *pamh, const char *want)
{
	const char *host = NULL;

	if (pam_get_item(pamh, PAM_RHOST, (const void **)&host) != PAM_SUCCESS || !host || strcmp(host, want))
		return PAM_AUTH_ERR;
	return PAM_SUCCESS;
}

int pam_sm_authenticate(pam_handle_t *pamh, int flags, int argc, const char **argv)
{
	int rc = PAM_SUCCESS;

	for (int i = 0; i < argc && rc == PAM_SUCCESS; i++) {
		const char *arg = strchr(argv[i], ':');
		char *answer = NULL;

		if (!arg++)
			return PAM_SERVICE_ERR;
		if (!strncmp(argv[i], "hide:", 5))
			rc = ask(pamh, PAM_PROMPT_ECHO_OFF, arg);
		else if (!strncmp(argv[i], "show:", 5))
			rc = ask(pamh, PAM_PROMPT_ECHO_ON, arg);
		else if (!strncmp(argv[i], "info:", 5))
			rc = converse(pamh, PAM_TEXT_INFO, arg, &answer);
		else if (!strncmp(argv[i], "rhost:", 6))
			rc = from_host(pamh, arg);
		else if (!strncmp(argv[i], "nonull:", 7))
			rc = flags & PAM_DISALLOW_NULL_AUTHTOK ? PAM_SUCCESS : PAM_AUTH_ERR;
		else
			rc = PAM_SERVICE_ERR;
		free(answer);
	}
	return rc;
}

int pam_sm_setcred(pam_handle_t *pamh, int flags, int argc, const char **argv)
{
	(void)pamh, (void)flags, (void)argc, (void)argv;
	return PAM_SUCCESS;
}

int pam_sm_acct_mgmt(pam_handle_t *pamh, int flags, int argc, const char **argv)
{
	(void)pamh, (void)flags;
	if (argc == 1 && !strcmp(argv[0], "acct:expired"))
		return PAM_ACCT_EXPIRED;
	if (argc == 1 && !strcmp(argv[0], "acct:renew"))
		return PAM_NEW_AUTHTOK_REQD;
	return PAM_SERVICE_ERR;
}
